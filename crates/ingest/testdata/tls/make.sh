#!/bin/sh
# Makes the certificates of the tests: an authority, a server (localhost, 127.0.0.1) and a client.
# They protect nothing and are valid for 100 years, so that no test depends on the date.
set -eu
cd "$(dirname "$0")"
new_key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }
new_key ca.key
openssl req -x509 -new -key ca.key -subj "/CN=test authority" -days 36500 -out ca.pem
sign() {
    new_key "$1.key"
    openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
    printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n' >"$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 36500 -extfile "$1.ext" -out "$1.pem"
    rm "$1.csr" "$1.ext"
}
sign server
sign client
rm -f ca.key ca.srl
