#!/bin/sh
{ echo region,total; awk -F, 'NR > 1 { sum[$1] += $2 } END { for (each in sum) print each "," sum[each] }' sales.csv | sort; } > totals.csv
