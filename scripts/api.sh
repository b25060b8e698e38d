#!/usr/bin/env bash
# Tests the HTTP API of a real server against its description: no response is an
# internal error, and every one conforms to /openapi.json. The requests are the same every time.
# Clients that are generated from the description work, too.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath "${CARGO_TARGET_DIR:-target}")
baton=$target/debug/baton
schemathesis=$target/tools/schemathesis/bin/schemathesis
generators=$target/tools/clients/bin
node=$target/tools/node
programs=$(realpath scripts/clients)
hello=$(realpath examples/hello.yaml)
for program in "$baton" "$schemathesis" "$generators/python"; do
    [[ -x $program ]] || { echo "$program is missing: run \`make api\`" >&2; exit 1; }
done

dir=$(mktemp -d)
# The cache of schemathesis would change the requests from run to run.
cd "$dir"
# Created before the server writes it: the loop below reads it at once.
: >server.log
"$baton" up --data "$dir/data" --listen 127.0.0.1:0 --worker-listen 127.0.0.1:0 \
    >server.log 2>&1 &
server=$!
finish() {
    kill -INT "$server" 2>/dev/null || true
    wait "$server" || true
    cd / && rm -rf "$dir"
}
trap finish EXIT

url=
for _ in {1..600}; do
    url=$(sed -n 's/^baton scheduler ready: \(http:[^,]*\),.*/\1/p' server.log)
    [[ -z $url ]] || break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
if [[ -z $url ]]; then
    cat server.log >&2
    echo "the server did not start" >&2
    exit 1
fi

# Existing resources: an instance that has run, on a connected worker.
id=$("$baton" submit --url "$url" --wait "$hello" 2>submit.log) || { cat submit.log >&2; exit 1; }
# A task of the library with the name of the worker: both are a `name` in a path.
printf 'task: local\nowner: demo\nrun: "true"\ntrigger: { remote: true, schedule: every second }\n' >task.yaml
"$baton" library put --url "$url" task.yaml >submit.log 2>&1 || { cat submit.log >&2; exit 1; }
# A failed run: it has errors, and can be resumed.
printf 'workflow: w\ntasks: { a: { run: "true" }, b: { run: "false", after: [a] } }\n' >workflow.yaml
run=$("$baton" submit --url "$url" --wait workflow.yaml 2>submit.log) || [[ $run == r1 ]] || { cat submit.log >&2; exit 1; }
printf '[parameters]\n"path.id" = "%s"\n"path.name" = "local"\n"path.owner" = "demo"\n"path.run" = "%s"\n' \
    "$id" "$run" >known.toml
touch anything.toml

checks=not_a_server_error,status_code_conformance,content_type_conformance
checks+=,response_headers_conformance,response_schema_conformance
export NO_PROXY=127.0.0.1
try() {
    local what=$1
    shift
    "$schemathesis" --config-file "$what.toml" run "$url/openapi.json" \
        --seed 1 --max-examples 20 --phases coverage,fuzzing --checks "$checks" \
        --request-timeout 30 --warnings off --no-color "$@" >"$what.log" 2>&1 || {
        cat "$what.log" >&2
        exit 1
    }
}

# A client in Python, which runs against the server. A warning of the generator is a type that it leaves out.
cat >generator.yaml <<<'post_hooks: []'
quietly() {
    local log=$1.log
    shift
    "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
}
quietly generate "$generators/openapi-python-client" generate --url "$url/openapi.json" --config generator.yaml \
    --meta none --output-path clients/api --fail-on-warning
quietly python "$generators/python" -B "$programs/program.py" "$url" clients
# One in TypeScript, whose types are checked first.
if [[ -d $node ]]; then
    mkdir typescript
    cp "$programs/program.ts" typescript
    ln -s "$node/node_modules" typescript/node_modules
    quietly generate "$node/node_modules/.bin/openapi-typescript" "$programs/../../docs/openapi.json" --output typescript/api.ts
    echo '{ "type": "module" }' >typescript/package.json
    quietly tsc "$node/node_modules/.bin/tsc" --outDir typescript/built --strict --skipLibCheck --module esnext \
        --moduleResolution bundler --target es2022 --lib es2022,dom typescript/program.ts
    quietly node node typescript/built/program.js "$url"
else
    echo "npm is missing: no TypeScript client was generated"
fi

# A forgotten worker begins anew, and answers for no log meanwhile: it is forgotten after all else. The
# event stream does not end.
try known --exclude-operation-id forget --exclude-operation-id events
try anything --exclude-operation-id forget --exclude-operation-id events
try anything --include-operation-id forget
