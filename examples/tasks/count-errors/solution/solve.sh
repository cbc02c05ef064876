#!/bin/sh
grep -c ERROR service.log > errors.txt
