#!/bin/sh
sort -u service.conf wanted.conf > all && mv all service.conf
