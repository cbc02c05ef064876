#!/bin/sh
cd /app/site && grep -q first 1.html && grep -q second 2.html && grep -q 2.html /logs/artifacts/listing.txt \
  && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
