# Shared by the programs for a host. $dir is the directory of a fleet there. The files of a unit, one
# pilot, are
#
#   UNIT.intent  the name of its job, and the host; written before everything else
#   UNIT.sh      its script
#   UNIT.run     boot id, pid and start time of its shell. It is linked once, by the shell before it
#                does anything, or with `- 0 0` by a program after which the unit must not start
#   UNIT.stop    made before it is stopped
#   UNIT.end     its exit status
#   UNIT.log     its output
#
# So no process of a unit is unknown, whatever ends in between. Several hosts may share the directory.

umask 077
node=$(uname -n)
boot=$(cat /proc/sys/kernel/random/boot_id)

# Claims the only start of a unit, so that it never starts.
void() {
    echo "- 0 0" >"$1.void.$$"
    ln "$1.void.$$" "$1.run" 2>/dev/null
    rm -f "$1.void.$$"
}

# Sets $started to the start time of a process; false if it is gone or a zombie.
start_time() {
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    # The name of a program may have spaces and parentheses.
    set -- ${stat##*) }
    started=${20}
    case $1 in Z | X) return 1 ;; esac
}

# Reads UNIT.run; true if the unit has processes. $leader is its shell, if that is one of them.
is_alive() {
    leader=
    read -r unit_boot pid unit_start <"$1.run"
    [ "$unit_boot" = "$boot" ] || return 1
    if start_time "$pid"; then
        # The number of another process: it is given again only when the whole session is gone.
        [ "$started" = "$unit_start" ] || return 1
        leader=$pid
        return 0
    fi
    for file in /proc/[0-9]*/stat; do
        { read -r stat <"$file"; } 2>/dev/null || continue
        set -- ${stat##*) }
        [ "$4" = "$pid" ] || continue
        case $1 in Z | X) ;; *) return 0 ;; esac
    done
    return 1
}

# Brings the file $token of an issued token up to date, if $secret is set. Nothing here is an argument of a program.
keep_token() {
    [ -n "$secret" ] || return 0
    { read -r known <"$token"; } 2>/dev/null || known=
    [ "$known" != "$secret" ] || return 0
    printf '%s\n' "$secret" >"$token.$$" && mv "$token.$$" "$token"
}
