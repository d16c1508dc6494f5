#!/bin/sh
# Counts how often each line of a file occurs.
sort -- "$1" | uniq -c | sed 's/^ *//'
