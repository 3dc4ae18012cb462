#!/usr/bin/env bash
# The test on the network: h1 reaches h2 by name.
set -euo pipefail
xoff lab exec h1 -- ping -c 3 -i 0.1 -W 5 h2
