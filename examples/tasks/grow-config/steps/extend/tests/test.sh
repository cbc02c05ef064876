#!/bin/sh
[ "$(sort /app/service.conf | tr "\n" " ")" = "port=8080 workers=4 " ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
