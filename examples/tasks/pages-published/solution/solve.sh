#!/bin/sh
mkdir -p site && n=0
while read -r line; do n=$((n + 1)); echo "<p>$line</p>" > "site/$n.html"; done < notes.txt
