#!/bin/sh
tr -dc 0-9 < key.txt > answer.txt && echo >> answer.txt
