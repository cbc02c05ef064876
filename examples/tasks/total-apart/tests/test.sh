#!/bin/sh
right=0 header=0
[ "$(head -n 1 /app/totals.csv)" = "region,total" ] && header=1
[ "$(tail -n +2 /app/totals.csv | tr '\n' ' ')" = "north,160 south,80 " ] && right=1
echo "{\"reward\": $right, \"header\": $header}" > /logs/verifier/reward.json
