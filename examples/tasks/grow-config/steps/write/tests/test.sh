#!/bin/sh
[ "$(cat /app/service.conf)" = port=8080 ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
