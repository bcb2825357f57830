#!/bin/sh
# kubelet_certs.sh DIR: certificates as kubelets have them, good and bad. Made once, then kept; tests
# that run side by side wait for the first.
set -eu
dir=$1
[ -e "$dir/done" ] && exit 0
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9
[ -e "$dir/done" ] && exit 0
cd "$dir"

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }
authority() { # NAME
	key "$1"
	openssl req -x509 -new -key "$1.key" -days 3650 -subj "/CN=$1" -out "$1.crt"
}
signed() { # NAME CA SAN [FROM UNTIL]
	key "$1"
	openssl req -new -key "$1.key" -subj "/O=system:nodes/CN=$1" -out "$1.csr"
	printf 'subjectAltName=%s\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n' "$3" >"$1.ext"
	rm -f index.txt index.txt.attr
	: >index.txt
	cat >ca.cnf <<-CNF
		[ca]
		default_ca = own
		[own]
		database = index.txt
		new_certs_dir = .
		rand_serial = yes
		default_md = sha256
		policy = any
		unique_subject = no
		[any]
		organizationName = optional
		commonName = supplied
	CNF
	openssl ca -batch -notext -config ca.cnf -cert "$2.crt" -keyfile "$2.key" -in "$1.csr" -out "$1.crt" \
		-extfile "$1.ext" -startdate "${4:-20200101000000Z}" -enddate "${5:-20491231000000Z}"
}

authority cluster-ca
authority node-ca
signed by-ca cluster-ca 'DNS:node-1,IP:127.0.0.1,IP:::1'
signed other-name cluster-ca 'DNS:node-2'
signed expired cluster-ca 'DNS:node-1,IP:127.0.0.1' 20200101000000Z 20200102000000Z
signed future cluster-ca 'DNS:node-1,IP:127.0.0.1' 20480101000000Z 20491231000000Z
signed own node-ca 'DNS:node-1'
signed own-sibling node-ca 'DNS:node-1'
signed own-expired node-ca 'DNS:node-1' 20200101000000Z 20200102000000Z
# The file of a kubelet that signs for itself holds its certificate and the one that signed it.
for name in own own-sibling own-expired; do
	cat node-ca.crt >>"$name.crt"
done
touch "done"
