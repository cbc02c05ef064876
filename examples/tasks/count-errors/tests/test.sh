#!/bin/sh
# Any white space around the number will do.
[ "$(tr -d "[:space:]" < /app/errors.txt)" = 3 ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
