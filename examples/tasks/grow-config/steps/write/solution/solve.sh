#!/bin/sh
echo port=8080 > service.conf
