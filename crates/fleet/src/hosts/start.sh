# Starts $unit of the job $name with the script $body, unless it was started before, and prints
# `started PID` or `refused REASON`.

refuse() {
    echo "refused $1"
    exit 0
}

mkdir -p "$dir" && cd "$dir" || refuse "cannot use the directory $dir on $node"
command -v setsid >/dev/null || refuse "there is no program setsid on $node"
command -v "$binary" >/dev/null || refuse "there is no program $binary on $node"
keep_token || refuse "cannot write the token file $token on $node"
if [ -n "$token" ]; then
    mode=$(stat -Lc %a "$token" 2>/dev/null) || refuse "there is no token file $token on $node"
    [ -r "$token" ] || refuse "the token file $token on $node cannot be read"
    case $mode in
    ?00 | 0) ;;
    *) refuse "other users may read the token file $token on $node (mode $mode); run chmod 600 $token there" ;;
    esac
fi
if [ ! -e "$unit.run" ]; then
    echo "$name $node" >"$unit.intent.$$" && mv "$unit.intent.$$" "$unit.intent" &&
        printf %s "$body" >"$unit.sh.$$" && mv "$unit.sh.$$" "$unit.sh" ||
        refuse "cannot write in $dir on $node"
    # A session without a terminal: the end of this connection does not end it.
    setsid /bin/sh "$unit.sh" </dev/null >>"$unit.log" 2>&1 &
    tries=0
    while [ ! -e "$unit.run" ] && [ "$tries" -lt 100 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    void "$unit"
fi
read -r _ pid _ <"$unit.run"
[ "$pid" != 0 ] || refuse "it was cancelled, or has not started within 10 s: $(tail -n 1 "$unit.log" 2>/dev/null)"
echo "started $pid"
