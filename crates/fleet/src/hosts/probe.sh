# Prints what a host has for a worker in $dir, in lines of a word and a value, and at last `end`. Hosts that share the
# directory have a unit each.

case $dir in /*) ;; *) dir=$PWD/$dir ;; esac
unit=worker-$node
echo "dir $dir"
echo "node $node"
echo "system $(uname -sm)"
if cd "$dir" 2>/dev/null; then
    echo "binary $(sha256sum baton 2>/dev/null | cut -d ' ' -f 1)"
    if [ -e "$unit.run" ]; then
        if is_alive "$unit"; then
            echo "running $pid"
        elif [ -e "$unit.end" ]; then
            echo "ended $(cat "$unit.end")"
        fi
    fi
fi
echo end
