# Keeps the worker $unit if it runs as it is to run, and $again is not set. Otherwise it ends what runs; the program
# that starts a unit follows. With $ca, the certificates that the worker is to trust.

mkdir -p "$dir" && cd "$dir" || {
    echo "refused cannot use the directory $dir on $node"
    exit 0
}
if [ -n "$ca" ]; then
    printf %s "$ca" >ca.pem.$$ && mv ca.pem.$$ ca.pem
fi
if [ -e "$unit.run" ]; then
    if is_alive "$unit"; then
        if [ -z "$again" ] && [ "$body" = "$(cat "$unit.sh")
" ]; then
            keep_token
            echo "kept $pid"
            exit 0
        fi
        # Its attempts go on, and the next worker takes them over.
        kill -TERM "${leader:--$pid}" 2>/dev/null
        tries=0
        while is_alive "$unit"; do
            if [ "$tries" -ge 600 ]; then
                echo "refused the worker with pid $pid on $node has not ended within 60 s of SIGTERM"
                exit 0
            fi
            sleep 0.1
            tries=$((tries + 1))
        done
    fi
    rm -f "$unit.run" "$unit.stop" "$unit.end" "$unit.intent" "$unit.sh"
fi
