#!/bin/sh
# Keys and certificates for tests of brokers, and for nothing else: `ca` signs `server` (127.0.0.1) and `member`, `other` signs nobody.
set -e
cd "$(dirname "$0")"
key() { openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -nocrypt -out "$1-key.pem"; }
authority() {
    key "$1"
    openssl req -x509 -new -key "$1-key.pem" -days 36500 -subj "/CN=millrace tests $1" -out "$1.pem"
}
signed() { # NAME EXTENSIONS
    key "$1"
    openssl req -new -key "$1-key.pem" -subj "/CN=$1" |
        openssl x509 -req -CA ca.pem -CAkey ca-key.pem -set_serial "$3" -days 36500 -extfile /dev/fd/3 -out "$1.pem" 3<<END
$2
END
}
authority ca
authority other
signed server "subjectAltName=IP:127.0.0.1,DNS:localhost" 1
signed member "subjectAltName=email:member@millrace.test" 2
rm ca-key.pem other-key.pem
