# Stops $units, and kills those that are there $kill_after seconds later, if that is set. Prints `end`.

mkdir -p "$dir" && cd "$dir" || exit 1
for unit in $units; do
    [ -e "$unit.run" ] || void "$unit"
    is_alive "$unit" || continue
    [ -e "$unit.stop" ] && again=1 || again=
    : >"$unit.stop"
    # Its shell passes the signal on.
    kill -TERM "${leader:--$pid}" 2>/dev/null
    [ -z "$again" ] && [ -n "$kill_after" ] || continue
    setsid /bin/sh -c "$killer" sh "$dir" "$unit" "$kill_after" </dev/null >/dev/null 2>&1 &
done
echo end
