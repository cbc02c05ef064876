#!/bin/sh
echo "$(paste -sd, schema.txt) $LANGUAGE_OF_REPORT" > /tmp/columns.txt
