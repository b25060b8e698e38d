#!/bin/sh
# A fleet of Kubernetes Jobs, for the backend `command`:
#
#   start: /usr/share/baton/fleets/kubernetes.sh start registry.example/baton:1 baton-token /etc/baton cpu=8,memory=32Gi
#   list: /usr/share/baton/fleets/kubernetes.sh list
#   stop: /usr/share/baton/fleets/kubernetes.sh stop "$@"
#
# The arguments of `start` are the image, which has the binary; the Secret with the token, the directory
# where it is mounted, which is that of the token file; and the resources of the pod. kubectl takes
# cluster and namespace from its own configuration.
set -u

start() {
    if [ $# -ne 4 ]; then
        echo "usage: kubernetes.sh start IMAGE SECRET DIRECTORY RESOURCES" >&2
        exit 2
    fi
    # Kubernetes expands $(NAME) in commands, and reads $$ as one $.
    script=$(sed -e 's/\$/$$/g' -e 's/^/          /' "$BATON_JOB_SCRIPT") || exit 1
    resources=$(printf '%s' "$4" | sed -e 's/=/: "/g' -e 's/,/", /g')
    errors=$(
        kubectl create -f - 2>&1 >/dev/null <<YAML
apiVersion: batch/v1
kind: Job
metadata:
  name: $BATON_JOB_NAME
  labels:
    app: baton-pilot
    baton-fleet: $BATON_FLEET
spec:
  backoffLimit: 0
  ttlSecondsAfterFinished: 86400
  template:
    metadata:
      labels:
        app: baton-pilot
        baton-fleet: $BATON_FLEET
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 60
      containers:
      - name: pilot
        image: "$1"
        resources:
          requests: {$resources"}
          limits: {$resources"}
        volumeMounts:
        - name: token
          mountPath: "$3"
          readOnly: true
        command:
        - /bin/sh
        - -c
        - |
$script
      volumes:
      - name: token
        secret:
          secretName: "$2"
          defaultMode: 0400
YAML
    ) || case $errors in
    # The answer to an earlier try was lost.
    *AlreadyExists*) ;;
    *)
        printf '%s\n' "$errors" >&2
        exit 1
        ;;
    esac
    echo "$BATON_JOB_NAME"
}

list() {
    columns='NAME:.metadata.name,READY:.status.ready,SUCCEEDED:.status.succeeded'
    columns="$columns,FAILED:.status.conditions[?(@.type==\"Failed\")].reason"
    jobs=$(kubectl get jobs -l "app=baton-pilot,baton-fleet=$BATON_FLEET" --no-headers -o "custom-columns=$columns") || exit 1
    printf '%s\n' "$jobs" | awk '
        NF == 0 { next }
        NF < 4 { print; next }
        $4 != "<none>" { print $1, $1, "failed", $4; next }
        $3 + 0 > 0 { print $1, $1, "ended"; next }
        $2 + 0 > 0 { print $1, $1, "running"; next }
        { print $1, $1, "queued" }'
}

stop() {
    kubectl delete jobs --ignore-not-found --wait=false "$@" >/dev/null
}

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
start | list | stop) "$command" "$@" ;;
*)
    echo "usage: kubernetes.sh start IMAGE SECRET DIRECTORY RESOURCES | list | stop NAME…" >&2
    exit 2
    ;;
esac
