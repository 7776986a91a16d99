# Runs a command on a private machine:
#     unshare --net --mount --pid --fork --kill-child --mount-proc bash mininet.sh DIR COMMAND...
# DIR is at /mnt there, and /tmp is empty. The machine has an Open vSwitch without bridges. Everything on it ends with the
# command: mininet leaves devices and processes behind when it fails. Its cleanup kills processes by name, and deletes
# files in /tmp.
set -eu
mount --bind "$1" /mnt
shift
cd /mnt
mount -t tmpfs tmpfs /tmp
mount -o bind,ro /proc/sys /proc/sys # mininet raises limits of the whole machine
ip link set lo up
mkdir ovs
export OVS_RUNDIR=/mnt/ovs OVS_LOGDIR=/mnt/ovs OVS_DBDIR=/mnt/ovs
ovsdb-tool create ovs/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server --remote=punix:/mnt/ovs/db.sock --unixctl=/mnt/ovs/db.ctl -vconsole:off -vsyslog:off \
	--log-file=/mnt/ovs/ovsdb-server.log /mnt/ovs/conf.db &
for _ in $(seq 1000); do
	[ ! -S ovs/db.sock ] || break
	sleep 0.01
done
ovs-vsctl --timeout=10 --no-wait init
ovs-vswitchd unix:/mnt/ovs/db.sock --unixctl=/mnt/ovs/vswitchd.ctl -vconsole:off -vsyslog:off \
	--log-file=/mnt/ovs/ovs-vswitchd.log &
exec "$@"
