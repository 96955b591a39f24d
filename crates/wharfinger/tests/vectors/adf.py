#!/usr/bin/env python3
"""An agent's file by another hand: sqlite3 and `cryptography`, and nothing of ours.

    adf.py make PATH KEYS     makes a file with much in it that Rust does not know
    adf.py check PATH KEYS    says what of that is gone or changed, and what Rust added; JSON
    adf.py read PATH KEYS     says what is in a file that Rust made; JSON
    adf.py touch PATH KEYS    changes such a file as another program does

KEYS is the `identity.json` of the owner and the machine.
"""

import base64
import hashlib
import hmac
import json
import os
import sqlite3
import struct
import sys

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

RAW = (serialization.Encoding.Raw, serialization.PublicFormat.Raw)
SECRETS = {"mcp:git:TOKEN": b"made in Python", "openai_key": "schl\u00fcssel".encode()}

# As another program writes it: other spacing, more columns, a newer schema's, and things of its own.
TABLES = """
CREATE TABLE adf_meta (key TEXT PRIMARY KEY, value TEXT NOT NULL,
    protection TEXT NOT NULL DEFAULT 'none' CHECK(protection IN ('none','readonly','increment')), note TEXT);
CREATE TABLE adf_config (id INTEGER PRIMARY KEY CHECK (id = 1), config_json TEXT NOT NULL, updated_at TEXT NOT NULL,
    revision INTEGER DEFAULT 7);
CREATE TABLE adf_loop (seq INTEGER PRIMARY KEY AUTOINCREMENT, role TEXT NOT NULL, content_json TEXT NOT NULL,
    model TEXT, tokens TEXT, created_at INTEGER NOT NULL, ord INTEGER, loop TEXT NOT NULL DEFAULT 'main');
CREATE TABLE adf_files (path TEXT PRIMARY KEY, content BLOB NOT NULL, mime_type TEXT, size INTEGER NOT NULL,
    protection TEXT NOT NULL DEFAULT 'none', authorized INTEGER NOT NULL DEFAULT 0, created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL, color TEXT DEFAULT 'red');
CREATE TABLE adf_identity (purpose TEXT PRIMARY KEY, value BLOB NOT NULL, encryption_algo TEXT DEFAULT 'plain',
    salt BLOB, kdf_params TEXT, code_access INTEGER NOT NULL DEFAULT 0, label TEXT DEFAULT 'none');
CREATE TABLE adf_tasks (id TEXT PRIMARY KEY, tool TEXT NOT NULL, args TEXT NOT NULL DEFAULT '{}',
    status TEXT NOT NULL DEFAULT 'pending', result TEXT, error TEXT, created_at INTEGER NOT NULL,
    completed_at INTEGER, origin TEXT, requires_authorization INTEGER NOT NULL DEFAULT 0,
    executor_managed INTEGER NOT NULL DEFAULT 0, approval_meta TEXT, loop TEXT);
CREATE TABLE adf_logs (id INTEGER PRIMARY KEY AUTOINCREMENT, level TEXT NOT NULL DEFAULT 'info', origin TEXT,
    event TEXT, target TEXT, message TEXT NOT NULL, data TEXT, created_at INTEGER NOT NULL, loop TEXT);
CREATE TABLE adf_unheard_of (a, b);
CREATE TABLE local_notes (text TEXT);
CREATE INDEX local_notes_text ON local_notes(text);
CREATE VIEW local_view AS SELECT text FROM local_notes;
INSERT INTO adf_unheard_of VALUES (1, x'00ff'), ('two', NULL);
INSERT INTO local_notes VALUES ('note');
INSERT INTO adf_loop (role, content_json, created_at, loop) VALUES ('user', '[]', 1, 'inner');
INSERT INTO adf_files (path, content, size, created_at, updated_at, color, authorized)
    VALUES ('lib/a.ts', 'code', 4, '', '', 'blue', 1), ('data.bin', x'00ff00', 3, '', '', 'green', 0);
INSERT INTO adf_logs (message, created_at, loop) VALUES ('before', 1, 'main');
INSERT INTO adf_tasks (id, tool, created_at, loop) VALUES ('task_0', 't', 1, 'inner');
"""

CONFIG = {
    "zeta": [1, 2.5, -3, 12345678901234567, True, None, {"deep": {"er": []}}],
    "adf_version": "0.2", "id": "abc", "name": "from Python", "icon": "\U0001f40d",
    "mcp": {"servers": [{"name": "git", "command": "x", "unheard": {"of": 1}}], "own": "kept"},
    "tools": [], "logging": {"max_rows": None}, "a": "last",
}


def b64(data):
    return base64.b64encode(data).decode()


def derive(words, path):
    seed = hashlib.pbkdf2_hmac("sha512", words.encode(), b"mnemonic", 2048, 64)
    node = hmac.digest(b"ed25519 seed", seed, "sha512")
    for step in path:
        node = hmac.digest(node[32:], b"\0" + node[:32] + struct.pack(">I", step | 1 << 31), "sha512")
    return node[:32]


def did(public):
    letters = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number, text = int.from_bytes(b"\xed\x01" + public), ""
    while number:
        number, digit = divmod(number, 58)
        text = letters[digit] + text
    return "did:key:z" + text


def holders(keys):
    """Type, DID and opening key of the machine and the owner."""
    with open(keys, encoding="utf-8") as file:
        kept = json.load(file)
    machine, words = kept["runtime"], kept["words"]
    for kind, signing, opening in (
        ("runtime", base64.b64decode(machine["signing"]), base64.b64decode(machine["encryption"])),
        ("owner", derive(words, [44, 0, 0]), derive(words, [44, 0, 1])),
    ):
        public = Ed25519PrivateKey.from_private_bytes(signing).public_key()
        yield kind, did(public.public_bytes(*RAW)), X25519PrivateKey.from_private_bytes(opening)


def wrap_key(secret, ephemeral, envelope):
    info = b"adf-envelope-v1:" + envelope.encode()
    return AESGCM(HKDF(hashes.SHA256(), 32, ephemeral, info).derive(secret))


def slot(kind, name, opening, dek, envelope):
    ephemeral = X25519PrivateKey.generate()
    public, iv = ephemeral.public_key().public_bytes(*RAW), os.urandom(12)
    wrap = wrap_key(ephemeral.exchange(opening.public_key()), public, envelope)
    return {"type": kind, "recipient_did": name, "ephemeral_pub": b64(public), "iv": b64(iv),
            "wrapped_dek": b64(wrap.encrypt(iv, dek, None)), "made_by": "python"}


def open_envelope(db, keys, envelope):
    """The envelope's key by each slot; they must agree."""
    (text,) = db.execute("SELECT value FROM adf_identity WHERE purpose = ?", ["crypto:envelope:" + envelope]).fetchone()
    found, slots = set(), json.loads(text)["slots"]
    for kind, name, opening in holders(keys):
        ours = [slot for slot in slots if slot["type"] == kind]
        assert ours, f"no slot for {kind}"
        for one in ours:
            assert one["recipient_did"] == name, one
            part = {key: base64.b64decode(one[key]) for key in ("ephemeral_pub", "iv", "wrapped_dek")}
            public = X25519PublicKey.from_public_bytes(part["ephemeral_pub"])
            wrap = wrap_key(opening.exchange(public), part["ephemeral_pub"], envelope)
            found.add(wrap.decrypt(part["iv"], part["wrapped_dek"], None))
    assert len(found) == 1, "slots disagree"
    return found.pop()


def secrets(db, keys):
    dek = open_envelope(db, keys, "credentials")
    rows = db.execute("SELECT purpose, value, salt, kdf_params FROM adf_identity WHERE encryption_algo = 'env:credentials'")
    found = {}
    for purpose, value, salt, params in rows.fetchall():
        assert salt is None and params is None, purpose
        found[purpose] = AESGCM(dek).decrypt(value[:12], value[12:], None).decode()
    return found


def put(db, purpose, value, algo="plain", salt=None, label="none"):
    db.execute("INSERT INTO adf_identity (purpose, value, encryption_algo, salt, label) VALUES (?, ?, ?, ?, ?)",
               [purpose, value, algo, salt, label])


def make(path, keys):
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.executescript(TABLES)
    db.execute("INSERT INTO adf_config (id, config_json, updated_at) VALUES (1, ?, '')",
               [json.dumps(CONFIG, indent=2, ensure_ascii=False)])
    signing = Ed25519PrivateKey.generate()
    public = signing.public_key()
    owner = {kind: name for kind, name, _ in holders(keys)}["owner"]
    for key, value, protection in (
        ("adf_version", "0.2", "readonly"), ("adf_schema_version", "32", "readonly"), ("adf_name", "from Python", "none"),
        ("adf_did", did(public.public_bytes(*RAW)), "none"), ("adf_owner_did", owner, "none"),
        ("adf_effective_runtime", "{}", "readonly"), ("runtime_cursor", "17", "none"), ("mine", "1", "increment"),
    ):
        db.execute("INSERT INTO adf_meta VALUES (?, ?, ?, ?)", [key, value, protection, "note on " + key])
    deks = {}
    for envelope in ("identity", "credentials"):
        dek = deks[envelope] = os.urandom(32)
        slots = [slot(*holder, dek, envelope) for holder in holders(keys)]
        slots.insert(0, {"type": "hardware", "handle": 5})
        put(db, "crypto:envelope:" + envelope, json.dumps({"v": 1, "slots": slots, "hint": "python"}).encode())

    def seal(envelope, plain):
        iv = os.urandom(12)
        return iv + AESGCM(deks[envelope]).encrypt(iv, plain, None)

    der = signing.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    put(db, "crypto:signing:private_key", seal("identity", der), "env:identity")
    put(db, "crypto:signing:public_key", public.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))
    for purpose, plain in SECRETS.items():
        put(db, purpose, seal("credentials", plain), "env:credentials", label="labelled")
    salt, iv = os.urandom(16), os.urandom(12)
    old = AESGCM(hashlib.pbkdf2_hmac("sha512", b"old password", salt, 100_000, 32))
    put(db, "crypto:kdf:salt", salt.hex().encode())
    put(db, "crypto:kdf:params", b'{"algo":"pbkdf2","digest":"sha512"}')
    put(db, "old", old.encrypt(iv, b"from before", None), "aes-256-gcm", iv)
    db.commit()
    db.close()
    return {}


def check(path, keys):
    db = sqlite3.connect(path)
    wrong = []

    def same(what, query, expect):
        found = db.execute(query).fetchall()
        if found != expect:
            wrong.append(f"{what}: {found!r}, not {expect!r}")

    same("whole", "PRAGMA integrity_check", [("ok",)])
    same("schema", "SELECT value FROM adf_meta WHERE key = 'adf_schema_version'", [("32",)])
    same("unknown table", "SELECT a, hex(b) FROM adf_unheard_of", [(1, "00FF"), ("two", "")])
    same("own table", "SELECT text FROM local_view", [("note",)])
    same("index", "SELECT count(*) FROM sqlite_schema WHERE name = 'local_notes_text'", [(1,)])
    same("loop", "SELECT loop FROM adf_loop", [("inner",)])
    same("columns of files", "SELECT path, color, authorized FROM adf_files ORDER BY path",
         [("data.bin", "green", 0), ("lib/a.ts", "blue", 0), ("new.md", "red", 0)])
    same("content", "SELECT hex(content) FROM adf_files WHERE path = 'data.bin'", [("00FF00",)])
    same("column of the configuration", "SELECT revision FROM adf_config", [(7,)])
    same("column of a log line", "SELECT loop FROM adf_logs ORDER BY id", [("main",), (None,)])
    same("column of a task", "SELECT loop, status FROM adf_tasks WHERE id = 'task_0'", [("inner", "denied")])
    same("notes", "SELECT count(*) FROM adf_meta WHERE note = 'note on ' || key", [(8,)])
    same("keys of others", "SELECT value, protection FROM adf_meta WHERE key IN ('runtime_cursor', 'mine') ORDER BY key",
         [("1", "increment"), ("17", "none")])
    same("protection", "SELECT protection FROM adf_meta WHERE key = 'adf_did'", [("readonly",)])
    same("closed well", "SELECT count(*) FROM adf_meta WHERE key = 'adf_clean_close'", [(1,)])
    same("labels", "SELECT purpose, label FROM adf_identity WHERE label = 'labelled' ORDER BY purpose",
         [("mcp:git:TOKEN", "labelled"), ("openai_key", "labelled")])
    (text,) = db.execute("SELECT config_json FROM adf_config").fetchone()
    expect = json.loads(json.dumps(CONFIG))
    expect["mcp"]["servers"].append({"name": "added"})
    if json.dumps(json.loads(text)) != json.dumps(expect):
        wrong.append(f"configuration: {text}")
    slots = json.loads(db.execute(
        "SELECT value FROM adf_identity WHERE purpose = 'crypto:envelope:credentials'").fetchone()[0])
    if slots["hint"] != "python" or slots["slots"][0] != {"type": "hardware", "handle": 5}:
        wrong.append(f"slots: {slots}")
    return {"wrong": wrong, "secrets": secrets(db, keys)}


def read(path, keys):
    db = sqlite3.connect(path)
    dek = open_envelope(db, keys, "identity")
    (sealed,) = db.execute("SELECT value FROM adf_identity WHERE purpose = 'crypto:signing:private_key'").fetchone()
    der = AESGCM(dek).decrypt(sealed[:12], sealed[12:], None)
    public = serialization.load_der_private_key(der, None).public_key()
    return {
        "secrets": secrets(db, keys),
        "did": did(public.public_bytes(*RAW)),
        "meta": dict(db.execute("SELECT key, value FROM adf_meta").fetchall()),
        "config": json.loads(db.execute("SELECT config_json FROM adf_config").fetchone()[0]),
    }


def touch(path, keys):
    db = sqlite3.connect(path)
    dek, iv = open_envelope(db, keys, "credentials"), os.urandom(12)
    db.execute("INSERT INTO adf_identity (purpose, value, encryption_algo, code_access) VALUES (?, ?, 'env:credentials', 1)",
               ["mcp:py:K", iv + AESGCM(dek).encrypt(iv, b"by Python", None)])
    db.execute("UPDATE adf_config SET config_json = json_set(config_json, '$.description', 'by Python')")
    db.execute("DELETE FROM adf_meta WHERE key = 'adf_clean_close'")
    db.commit()
    return {}


if __name__ == "__main__":
    todo, *arguments = sys.argv[1:]
    print(json.dumps({"make": make, "check": check, "read": read, "touch": touch}[todo](*arguments)))
