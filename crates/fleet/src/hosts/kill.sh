# Kills what is left of a unit after a while.

cd "$1" && sleep "$3" && is_alive "$2" && kill -KILL "-$pid"
