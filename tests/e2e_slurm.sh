#!/bin/bash
# The judge on a Slurm cluster: a real slurmctld, slurmd and munged on this machine, `proteusd --runner 'srun ...'`, one job on sim.
# Usage: e2e_slurm.sh BIN_DIR. Skips (77) with its reason where Debian's slurm-wlm and munge are not installed or not root.
set -u
bin=$1
for program in munged slurmctld slurmd srun sinfo curl; do
    PATH=$PATH:/usr/sbin command -v $program >/dev/null || { echo "skipped: $program is not installed (Debian's slurm-wlm, munge and curl)"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "skipped: slurmd needs root"; exit 77; }
PATH=$PATH:/usr/sbin
dir=$(mktemp -d /tmp/proteus_slurm_XXXXXX)
chmod 755 "$dir"
pids=()
finish() {
    status=$?
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
    for _ in $(seq 50); do
        alive=0
        for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null && alive=1; done
        [ $alive = 0 ] && break
        sleep 0.1
    done
    for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null; done
    [ $status = 0 ] || [ $status = 77 ] || tail -n 20 "$dir"/*.log
    rm -rf "$dir"
    exit $status
}
trap finish EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
free_port() {
    local port
    while port=$((20000 + RANDOM % 12000)) && (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
    echo "$port"
}

host=$(hostname -s)
mkdir -m 755 "$dir/munge" "$dir/state" "$dir/spool"
head -c 1024 /dev/urandom >"$dir/munge.key"
chmod 400 "$dir/munge.key"
munged --foreground --force --key-file "$dir/munge.key" --socket "$dir/munge/socket" --pid-file "$dir/munge/pid" \
    --log-file "$dir/munge/munged.log" --seed-file "$dir/munge/seed" >"$dir/munged.log" 2>&1 &
pids+=($!)
touch "$dir/gpu0" "$dir/gpu1"
echo "NodeName=$host Name=gpu File=$dir/gpu[0-1]" >"$dir/gres.conf"
cat >"$dir/slurm.conf" <<CONF
ClusterName=proteus
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/builtin
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
MpiDefault=none
GresTypes=gpu
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=1000 Gres=gpu:2 State=UNKNOWN
PartitionName=gpu Nodes=$host Default=YES State=UP
CONF
export SLURM_CONF=$dir/slurm.conf
for _ in $(seq 50); do [ -S "$dir/munge/socket" ] && break; sleep 0.1; done
slurmctld -D -f "$SLURM_CONF" >"$dir/slurmctld.log" 2>&1 &
pids+=($!)
slurmd -D -f "$SLURM_CONF" -N "$host" >"$dir/slurmd.log" 2>&1 &
pids+=($!)
for _ in $(seq 100); do sinfo -h -o %t 2>/dev/null | grep -q idle && break; sleep 0.2; done
sinfo -h -o %t 2>/dev/null | grep -q idle || fail "the cluster did not come up"

"$bin/proteusd" --listen 127.0.0.1:0 --data "$dir/data" --device sim --runner 'srun -Q -p gpu --gres=gpu:1 -n1' \
    >"$dir/out" 2>"$dir/proteusd.log" &
pids+=($!)
for _ in $(seq 100); do grep -q listening "$dir/out" && break; sleep 0.1; done
url=$(sed -n 's/^proteusd: listening on //p' "$dir/out")
[ -n "$url" ] || fail "proteusd did not start"
export PROTEUS_SERVER=$url
timeout 200 "$bin/proteus" submit --op rmsnorm --axes R=4,N=512 --candidates 2 --watch || fail "the job brought no kernel"
hash=$("$bin/proteus" hash --op rmsnorm --axes R=4,N=512 | grep -oE '[0-9a-f]{64}' | head -n 1)
"$bin/proteus" fetch "$hash" -o "$dir/kernel" --key <(curl -fsS "$url/v1/signing-key") || fail "the kernel does not verify"
# that it went through Slurm: its controller numbered at least the baseline's step and two candidates
jobs=$(grep -c 'sched: _slurm_rpc_allocate_resources\|_slurm_rpc_allocate_resources: sched' "$dir/slurmctld.log")
[ "$jobs" -ge 3 ] || fail "Slurm saw $jobs allocations, wanted at least 3"
echo "Slurm made $jobs allocations"
echo "1 passed, 0 failed"
