#!/usr/bin/env bash
# A loopbus tool as a shell script: counts up, tells how far it is, and can be stopped. Written from
# docs/tool-protocol.md; the numbers in comments are its steps. It needs bash 5, jq and the nats command-line client:
#
#   go install -C docs/examples/shell github.com/nats-io/natscli/nats
#   NATS_URL=nats://127.0.0.1:4222 docs/examples/shell/count.sh
#
# One process reads everything that comes: cancellations, calls, and what its own jobs say. Each call is a job of its own.
set -uo pipefail

TOOL=count
WORKER="shell-$$-$RANDOM"
REPEATABLE=true # its effect class is read_only
TTL=30          # seconds that the announcement outlives us
HEARTBEAT=1     # seconds between two; without one for the consumer's ack wait, 4, another worker gets the call
INBOX="_INBOX.loopbus.$WORKER"
REPLY='^(agent\.reply|_INBOX)(\.[A-Za-z0-9_-]{1,64}){1,14}$'

UNKNOWN="The outcome of this call is unknown: the worker that ran it was lost before it answered. It was not run again \
because the tool is not safe to repeat. Check what happened before calling it again."

log() { printf '%s\n' "$*" >&2; }
# Waits so many seconds, without a process that could outlive this one.
nap() { read -rt "$1" <> <(:) || :; }
# Leaves nothing that the shell could evaluate in the index of an array.
plain() { printf '%s' "${1//[!A-Za-z0-9_.\/-]/}"; }
now() { printf '%s' "${EPOCHREALTIME//[.,]/}"; } # microseconds

# Publishes without a word; with -J it fails unless the stream has the message. Templates would read {{ }} in what we say.
pub() { nats --timeout=10s pub -q --no-templates "$@" >/dev/null 2>&1; }

# 3. Announces the tool, and goes on doing so.
announce() {
	local announcement
	announcement=$(jq -cn --arg tool "$TOOL" --arg worker "$WORKER" --arg since "$(date -u +%FT%TZ)" '{
		name: $tool, description: "Counts up from one.", effect: "read_only", worker: $worker, since: $since,
		parameters: {type: "object", required: ["to"], properties: {
			to: {type: "integer", minimum: 1, maximum: 1000, description: "Where to stop"},
			everyMs: {type: "integer", minimum: 1, description: "Milliseconds between two numbers (default: 1000)"}}}}')
	while :; do
		pub -J -H "Nats-TTL:${TTL}s" "\$KV.agent_tools.$TOOL.$WORKER" "$announcement" || log "announcement not renewed"
		nap $((TTL / 3))
	done
}

withdraw() {
	pub -J -H KV-Operation:DEL -H "Nats-TTL:${TTL}s" "\$KV.agent_tools.$TOOL.$WORKER" "" ||
		log "announcement not withdrawn"
}

# 2. Makes the queue's consumer, unless another worker has.
consumer() {
	nats consumer info AGENT_TOOL "$TOOL" >/dev/null 2>&1 && return
	nats --timeout=10s req --raw "\$JS.API.CONSUMER.CREATE.AGENT_TOOL.$TOOL.agent.tool.$TOOL.*.*" "$(jq -cn --arg tool "$TOOL" '{
		stream_name: "AGENT_TOOL", action: "create", config: {durable_name: $tool, name: $tool,
			filter_subject: "agent.tool.\($tool).*.*", ack_policy: "explicit", ack_wait: 4000000000,
			max_deliver: -1, max_ack_pending: -1, deliver_policy: "all", replay_policy: "instant"}}')" 2>/dev/null |
		jq -e '.error == null' >/dev/null && return
	log "no consumer: is a runner connected to this server?"
	return 1
}

# 4. Asks for one call, to come within 20 seconds; without one the server says so.
pull() {
	pub --reply "$INBOX.call" "\$JS.API.CONSUMER.MSG.NEXT.AGENT_TOOL.$TOOL" '{"batch":1,"expires":20000000000}'
}

# The job $2 of the call $1, given as nats sub shows it: executes it unless $3 says why not, answers, and then acknowledges.
job() {
	local message=$1 key=$2 stopped=$3 subject ack session call request answer reply begun alive delivered
	trap 'stopped="Operation aborted"' TERM
	subject=$(jq -r .Subject <<<"$message")
	ack=$(jq -r .Reply <<<"$message")
	request=$(jq -r '.Data | @base64d' <<<"$message")
	call=${subject##*.}
	session=${subject%.*}
	session=${session##*.}

	local me=$BASHPID # a job that has died must not look alive
	while nap "$HEARTBEAT" && kill -0 "$me" 2>/dev/null; do pub "$ack" +WPI; done & # 5.
	alive=$!
	begun=$(now)
	local text is_error=false nonce # of the call, which its answers have
	nonce=$(jq -r '.nonce? // ""' <<<"$request" 2>/dev/null)
	if ! jq -e --arg session "$session" --arg call "$call" '.session == $session and .call == $call' <<<"$request" >/dev/null 2>&1; then
		text="The request of this call was malformed: it is not JSON, or for another call" is_error=true request='{}'
		nonce=$(jq -r '.Header["Nats-Msg-Id"][0] // "" | split("/")[2] // ""' <<<"$message")
	elif reply=$(jq -r '.replyTo // ""' <<<"$request") && [ -n "$reply" ] && [[ ! $reply =~ $REPLY ]]; then
		text="The request of this call was malformed: its replyTo is not for answers" is_error=true request='{}' reply=''
	elif delivered=$(deliveries "$ack") && [ "$REPEATABLE" != true ] && [ "$delivered" -gt 1 ]; then # 6.
		text=$UNKNOWN is_error=true
	else
		count_up
	fi
	answer=$(jq -c --arg call "$call" --arg tool "$TOOL" --arg worker "$WORKER" --arg text "$text" --arg nonce "${nonce:--}" \
		--argjson error "$is_error" --argjson ms $((($(now) - begun) / 1000)) '{
			id: "result/\($call)", call: $call, nonce: $nonce, toolCallId: (.toolCallId // ""), toolName: $tool,
			result: {content: [{type: "text", text: $text}]}, isError: $error, durationMs: $ms, worker: $worker}' <<<"$request")
	if [ -n "${reply:-}" ]; then # 8., to a caller that is no session
		pub "$reply" "$answer"
	else
		store
	fi
	pub "$ack" +ACK # 9. only now
	kill "$alive" 2>/dev/null
	pub "$INBOX.free" "$key"
}

# Repeats the answer until the stream has it: its message id makes one of many.
store() {
	local id="$session/$call/${nonce:-$(date +%s%N)$RANDOM$RANDOM}/result"
	until pub -J -H "Nats-Msg-Id:$id" "agent.cmd.$session.tool_result" "$answer"; do
		log "result of $session/$call not stored, trying again"
		sleep 1
	done
}

# How often the call has been delivered, which the subject of its acknowledgement says.
deliveries() {
	local -a token
	IFS=. read -ra token <<<"$1"
	if [ ${#token[@]} -ge 11 ]; then echo "${token[6]}"; else echo "${token[4]}"; fi
}

# Executes the call of job, whose variables it uses: sets text and is_error.
count_up() {
	local to every limit n=0 end rest
	to=$(jq '.arguments.to | tonumber | floor' <<<"$request")
	every=$(jq '.arguments.everyMs // 1000 | tonumber | floor' <<<"$request")
	limit=$(jq '.timeoutMs // 0 | floor' <<<"$request")
	end=$((begun + limit * 1000))
	while [ -z "$stopped" ] && [ "$n" -lt "$to" ]; do
		n=$((n + 1))
		update "$n" "$n ..."
		rest=$((every * 1000))
		if [ "$limit" -gt 0 ] && [ $(($(now) + rest)) -ge "$end" ]; then
			stopped="Tool timed out after $(jq -n "$limit / 1000") seconds" rest=$((end - $(now)))
		fi
		sleep "$(printf '%d.%06d' $((rest > 0 ? rest / 1000000 : 0)) $((rest > 0 ? rest % 1000000 : 0)))" &
		wait $! # which, unlike sleep itself, a signal ends
	done
	if [ -n "$stopped" ]; then
		text=$stopped is_error=true
	else
		text="Counted up to $to."
	fi
}

# 7. Publishes the partial result number $1.
update() {
	local seq
	seq=$(jq .startSeq <<<"$request")
	pub -H ce-specversion:1.0 -H "ce-id:$session/$seq.$1" -H "ce-source:/loopbus/toolworker/$WORKER" \
		-H ce-type:dev.loopbus.tool_execution_update.v1 -H "ce-subject:$session" -H "ce-time:$(date -u +%FT%T.%3NZ)" \
		-H ce-datacontenttype:application/json \
		-H ce-dataschema:https://loopbus.dev/schemas/updates/tool_execution_update.v1.json \
		-H "ce-sequence:$(printf '%020d.%06d' "$seq" "$1")" \
		-H "ce-runid:$(jq -r .runId <<<"$request")" -H "ce-turnid:$(jq -r .turnId <<<"$request")" \
		"agent.live.$session.update" \
		"$(jq -c --arg text "$2" '{toolCallId, toolName, call, partialResult: {content: [{type: "text", text: $text}]}}' <<<"$request")"
}

# 10. Withdraws, takes no more calls, and lets those at work finish, which have ten seconds for it.
stop() {
	trap '' TERM INT
	kill "$announcing" "$listening" 2>/dev/null
	withdraw
	local begun=$SECONDS key
	for key in "${!running[@]}"; do
		while kill -0 "${running[$key]}" 2>/dev/null && [ $((SECONDS - begun)) -lt 10 ]; do sleep 0.1; done
		kill "${running[$key]}" 2>/dev/null
		wait "${running[$key]}"
	done
	exit 0
}

declare -A running=() # job by "<session>.<call>/<what cancels it>"
declare -A told=()    # calls that were cancelled before they began

# 1. One subscription for cancellations, calls and jobs; it works when it hears us.
exec 3< <(exec nats sub --dump=- 'agent.cancel.*.*' "$INBOX.>" 2>/dev/null)
listening=$!
for _ in {1..60}; do
	pub "$INBOX.ready" ""
	read -r -d '' -t 1 message <&3 && break
done || { log "no subscription on ${NATS_URL:-the server}"; exit 1; }
consumer || exit 1
announce &
announcing=$!
trap stop TERM INT
log "serving $TOOL as $WORKER"
pull

while :; do
	read -r -d '' -t 30 message <&3
	status=$?
	if [ $status -gt 128 ]; then # nothing came: the server may have forgotten what it was asked for, or a job has died
		for key in "${!running[@]}"; do
			kill -0 "${running[$key]}" 2>/dev/null || unset "running[$key]"
		done
		[ ${#running[@]} -eq 0 ] && pull
		continue
	elif [ $status -ne 0 ]; then
		log "the subscription has ended"
		kill "$announcing"
		withdraw
		exit 1
	fi
	subject=$(jq -r .Subject <<<"$message")
	case $subject in
	agent.cancel.*)
		digest=$(jq -r '.Data // "" | @base64d' <<<"$message")
		[ -n "$digest" ] || continue # a reply of the NATS server
		key=$(plain "${subject#agent.cancel.}/$digest")
		if [ -n "${running[$key]:-}" ]; then
			kill "${running[$key]}"
		else
			[ ${#told[@]} -ge 1000 ] && told=()
			told[$key]="Operation aborted"
		fi
		;;
	agent.tool.*)
		nonce=$(jq -r '.Data | @base64d | fromjson? | .nonce? // ""' <<<"$message")
		digest=-
		[ -z "$nonce" ] || digest=$(printf %s "$nonce" | sha256sum | cut -d' ' -f1)
		key=$(plain "${subject#agent.tool."$TOOL".}/$digest")
		job "$message" "$key" "${told[$key]:-}" 3<&- &
		running[$key]=$!
		;;
	"$INBOX.free")
		key=$(plain "$(jq -r '.Data | @base64d' <<<"$message")")
		wait "${running[$key]:-}" 2>/dev/null
		unset "running[$key]"
		pull
		;;
	"$INBOX.call") # the time to wait for a call is over
		pull
		;;
	esac
done
