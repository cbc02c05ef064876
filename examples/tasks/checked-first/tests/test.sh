#!/bin/sh
[ "$(cat /tmp/columns.txt)" = "id,name $LANGUAGE_OF_REPORT" ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
