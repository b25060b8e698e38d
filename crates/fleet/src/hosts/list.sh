# Prints a line for each unit of this host: `UNIT NAME STATE PID REASON`, and at last `end`.

cd "$dir" 2>/dev/null || {
    # Nothing was ever started here.
    [ ! -e "$dir" ] && echo end
    exit 0
}
# Pilots here may need the next token; one that cannot be written is tried again with the next list.
keep_token 2>/dev/null
for file in *.intent; do
    [ -e "$file" ] || continue
    unit=${file%.intent}
    read -r name unit_node <"$file"
    [ "$unit_node" = "$node" ] || continue
    if [ ! -e "$unit.run" ]; then
        if [ -z "$(find "$file" -mmin +1)" ]; then
            echo "$unit $name starting 0"
            continue
        fi
        # The program that was to start it has ended in between.
        void "$unit"
    fi
    if is_alive "$unit"; then
        echo "$unit $name running $pid"
        continue
    fi
    status=$(cat "$unit.end" 2>/dev/null)
    if [ "$status" = 0 ] || [ -e "$unit.stop" ]; then
        state=ended reason="exit status ${status:-unknown}"
    elif [ -n "$status" ]; then
        state=failed reason="exit status $status: $(tail -n 1 "$unit.log" 2>/dev/null)"
    elif [ "$pid" = 0 ]; then
        state=failed reason="it has not started"
    elif [ "$unit_boot" != "$boot" ]; then
        state=failed reason="the host was started again"
    else
        state=failed reason="it was killed"
    fi
    echo "$unit $name $state $pid $reason"
    # Known long enough; its log and its state directory stay.
    if [ -n "$(find "$unit.run" "$unit.end" -mmin -10080 2>/dev/null)" ]; then continue; fi
    rm -f "$unit.sh" "$unit.run" "$unit.stop" "$unit.end" "$unit.intent"
done
echo end
