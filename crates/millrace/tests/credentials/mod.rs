//! Credentials of NATS as `nsc` makes them: an operator who trusts an account, whose users have files of credentials. Keys are those of
//! Ed25519, written in base 32 with a prefix and a checksum; claims are JSON that is signed with them.

use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

/// The first octets of written keys.
const SEED: u8 = 18 << 3;
const OPERATOR: u8 = 14 << 3;
const ACCOUNT: u8 = 0;
const USER: u8 = 20 << 3;

struct Key {
    pair: Ed25519KeyPair,
    seed: [u8; 32],
    kind: u8,
}

impl Key {
    fn new(kind: u8) -> Key {
        let seed: [u8; 32] = ring::rand::generate(&SystemRandom::new()).unwrap().expose();
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        Key { pair, seed, kind }
    }

    fn public(&self) -> String {
        written(&[&[self.kind], self.pair.public_key().as_ref()].concat())
    }

    fn secret(&self) -> String {
        let head = [SEED | self.kind >> 5, (self.kind & 31) << 3];
        written(&[&head[..], &self.seed].concat())
    }

    /// A claim of it.
    fn says(&self, subject: &str, name: &str, nats: &Value) -> String {
        let part = |value: &Value| base64(value.to_string().as_bytes());
        let claims = json!({
            "jti": name, "iat": 1_700_000_000, "iss": self.public(), "name": name, "sub": subject, "nats": nats,
        });
        let text =
            format!("{}.{}", part(&json!({ "typ": "JWT", "alg": "ed25519-nkey" })), part(&claims));
        format!("{text}.{}", base64(self.pair.sign(text.as_bytes()).as_ref()))
    }
}

/// An operator with two accounts: the system's and one with a store.
pub(crate) struct Operator {
    operator: Key,
    system: Key,
    account: Key,
}

impl Operator {
    pub(crate) fn new() -> Operator {
        Operator {
            operator: Key::new(OPERATOR),
            system: Key::new(ACCOUNT),
            account: Key::new(ACCOUNT),
        }
    }

    /// The server's lines.
    pub(crate) fn configuration(&self) -> String {
        let all = json!({ "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1 });
        let mut stored = all.clone();
        for key in ["mem_storage", "disk_storage", "streams", "consumer"] {
            stored[key] = json!(-1);
        }
        let account = |key: &Key, name: &str, limits: Value| {
            let nats = json!({ "limits": limits, "type": "account", "version": 2 });
            let claim = self.operator.says(&key.public(), name, &nats);
            format!("  {}: {claim}\n", key.public())
        };
        let own =
            json!({ "type": "operator", "version": 2, "system_account": self.system.public() });
        let operator = self.operator.says(&self.operator.public(), "operator", &own);
        format!(
            "operator: {operator}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n{}{}}}\n",
            self.system.public(),
            account(&self.system, "system", all),
            account(&self.account, "gateways", stored)
        )
    }

    /// A user's file of credentials.
    pub(crate) fn user(&self) -> String {
        let user = Key::new(USER);
        let nats = json!({ "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1, "type": "user", "version": 2 });
        let claim = self.account.says(&user.public(), "member", &nats);
        format!(
            "-----BEGIN NATS USER JWT-----\n{claim}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{}\n------END USER NKEY SEED------\n",
            user.secret()
        )
    }
}

/// Base 32 of octets and their checksum.
fn written(octets: &[u8]) -> String {
    let mut crc = 0_u16;
    for octet in octets {
        crc ^= u16::from(*octet) << 8;
        for _ in 0..8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
        }
    }
    let octets = [octets, &crc.to_le_bytes()].concat();
    spread(&octets, 5, b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
}

fn base64(octets: &[u8]) -> String {
    spread(octets, 6, b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
}

/// Octets, so many bits to a letter.
fn spread(octets: &[u8], bits: u32, letters: &[u8]) -> String {
    let (mut held, mut count, mut out) = (0_u32, 0, String::new());
    for octet in octets {
        held = held << 8 | u32::from(*octet);
        count += 8;
        while count >= bits {
            count -= bits;
            out.push(letters[(held >> count) as usize & ((1 << bits) - 1)].into());
        }
        held &= (1 << count) - 1;
    }
    if count > 0 {
        out.push(letters[(held << (bits - count)) as usize & ((1 << bits) - 1)].into());
    }
    out
}
