// The envelopes of the format once more, with nothing but node:crypto: an independent hand that seals what Rust is to
// read, and reads what Rust sealed.
//
//   node envelope.mjs write   {words, runtime: {signing, encryption}, password, secrets: {purpose: text}}
//   node envelope.mjs read    {words, runtime: {signing, encryption}, password?, rows: [{purpose, algorithm, value}]}
//
// The question comes on stdin and the answer goes to stdout, both JSON; bytes are base64.

import * as crypto from 'node:crypto'
import { readFileSync } from 'node:fs'

const b64 = (bytes) => Buffer.from(bytes).toString('base64')
const bytes = (text) => Buffer.from(text, 'base64')

// SLIP-0010 from the seed of BIP-39, which is PBKDF2 over the words.
function derive(words, path) {
  const seed = crypto.pbkdf2Sync(words.normalize('NFKD'), 'mnemonic', 2048, 64, 'sha512')
  let node = crypto.createHmac('sha512', 'ed25519 seed').update(seed).digest()
  for (const step of path) {
    const index = Buffer.alloc(4)
    index.writeUInt32BE(step + 0x80000000)
    const text = Buffer.concat([Buffer.of(0), node.subarray(0, 32), index])
    node = crypto.createHmac('sha512', node.subarray(32)).update(text).digest()
  }
  return node.subarray(0, 32)
}

const privateKey = (curve, raw) =>
  crypto.createPrivateKey({
    key: Buffer.concat([Buffer.from(`302e020100300506032b65${curve}04220420`, 'hex'), raw]),
    format: 'der',
    type: 'pkcs8',
  })
const publicKey = (curve, raw) =>
  crypto.createPublicKey({
    key: Buffer.concat([Buffer.from(`302a300506032b65${curve}032100`, 'hex'), raw]),
    format: 'der',
    type: 'spki',
  })
const rawPublic = (key) => crypto.createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(12)
const [X25519, ED25519] = ['6e', '70']

function base58(raw) {
  const letters = '123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz'
  let number = BigInt('0x' + raw.toString('hex'))
  let text = ''
  for (; number > 0n; number /= 58n) text = letters[Number(number % 58n)] + text
  return text
}
const did = (raw) => 'did:key:z' + base58(Buffer.concat([Buffer.of(0xed, 0x01), raw]))

function encrypt(key, plain) {
  const iv = crypto.randomBytes(12)
  const cipher = crypto.createCipheriv('aes-256-gcm', key, iv)
  return { iv, sealed: Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]) }
}

function decrypt(key, iv, sealed) {
  const decipher = crypto.createDecipheriv('aes-256-gcm', key, iv)
  decipher.setAuthTag(sealed.subarray(-16))
  return Buffer.concat([decipher.update(sealed.subarray(0, -16)), decipher.final()])
}

const wrapKey = (secret, ephemeral, envelope) =>
  Buffer.from(crypto.hkdfSync('sha256', secret, ephemeral, 'adf-envelope-v1:' + envelope, 32))

function keySlot(type, name, recipient, dek, envelope) {
  const pair = crypto.generateKeyPairSync('x25519')
  const ephemeral = rawPublic(pair.privateKey)
  const secret = crypto.diffieHellman({ privateKey: pair.privateKey, publicKey: publicKey(X25519, recipient) })
  const { iv, sealed } = encrypt(wrapKey(secret, ephemeral, envelope), dek)
  return { type, recipient_did: name, ephemeral_pub: b64(ephemeral), iv: b64(iv), wrapped_dek: b64(sealed) }
}

function openKeySlot(slot, raw, envelope) {
  const ephemeral = bytes(slot.ephemeral_pub)
  const secret = crypto.diffieHellman({
    privateKey: privateKey(X25519, raw),
    publicKey: publicKey(X25519, ephemeral),
  })
  return decrypt(wrapKey(secret, ephemeral, envelope), bytes(slot.iv), bytes(slot.wrapped_dek))
}

const scrypt = (password, salt, { N, r, p }) =>
  crypto.scryptSync(password, salt, 32, { N, r, p, maxmem: 512 * 1024 * 1024 })

function passwordSlot(password, dek) {
  const [salt, kdf_params] = [crypto.randomBytes(32), { N: 131072, r: 8, p: 1 }]
  const { iv, sealed } = encrypt(scrypt(password, salt, kdf_params), dek)
  return { type: 'password', kdf: 'scrypt', kdf_params, salt: b64(salt), iv: b64(iv), wrapped_dek: b64(sealed) }
}

function people({ words, runtime }) {
  const owner = { did: did(rawPublic(privateKey(ED25519, derive(words, [44, 0, 0])))), opening: derive(words, [44, 0, 1]) }
  const machine = {
    did: did(rawPublic(privateKey(ED25519, bytes(runtime.signing)))),
    opening: bytes(runtime.encryption),
  }
  return { owner, runtime: machine }
}

function write(asked) {
  const { owner, runtime } = people(asked)
  const rows = []
  const row = (purpose, algorithm, value) => rows.push({ purpose, algorithm, value: b64(value) })
  const seal = (purpose, envelope, dek, plain) => {
    const { iv, sealed } = encrypt(dek, plain)
    row(purpose, 'env:' + envelope, Buffer.concat([iv, sealed]))
  }
  const signing = crypto.generateKeyPairSync('ed25519')
  for (const envelope of ['identity', 'credentials']) {
    const dek = crypto.randomBytes(32)
    const slots = Object.entries({ owner, runtime }).map(([type, person]) =>
      keySlot(type, person.did, rawPublic(privateKey(X25519, person.opening)), dek, envelope),
    )
    if (envelope === 'credentials') slots.push(passwordSlot(asked.password, dek))
    row('crypto:envelope:' + envelope, 'plain', JSON.stringify({ v: 1, slots }))
    if (envelope === 'identity') {
      seal('crypto:signing:private_key', envelope, dek, signing.privateKey.export({ format: 'der', type: 'pkcs8' }))
      row('crypto:signing:public_key', 'plain', signing.publicKey.export({ format: 'der', type: 'spki' }))
    } else {
      for (const [purpose, text] of Object.entries(asked.secrets)) seal(purpose, envelope, dek, Buffer.from(text))
    }
  }
  return { rows, owner: owner.did, did: did(rawPublic(signing.privateKey)) }
}

function read(asked) {
  const rows = new Map(asked.rows.map((row) => [row.purpose, { ...row, value: bytes(row.value) }]))
  const { owner, runtime } = people(asked)
  const opened = { owner: {}, runtime: {}, password: {} }
  for (const envelope of ['identity', 'credentials']) {
    const { v, slots } = JSON.parse(rows.get('crypto:envelope:' + envelope).value)
    if (v !== 1) throw new Error('another version of an envelope')
    for (const slot of slots) {
      const holder = { owner, runtime }[slot.type]
      if (holder && slot.recipient_did !== holder.did) throw new Error(`a slot for ${slot.recipient_did}`)
      const dek = holder
        ? openKeySlot(slot, holder.opening, envelope)
        : decrypt(scrypt(asked.password, bytes(slot.salt), slot.kdf_params), bytes(slot.iv), bytes(slot.wrapped_dek))
      for (const { purpose, algorithm, value } of rows.values()) {
        if (algorithm !== 'env:' + envelope) continue
        opened[slot.type][purpose] = b64(decrypt(dek, value.subarray(0, 12), value.subarray(12)))
      }
    }
  }
  // The key that was sealed is that of the public row.
  const der = bytes(opened.owner['crypto:signing:private_key'])
  const signing = crypto.createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  const told = crypto.createPublicKey({
    key: rows.get('crypto:signing:public_key').value,
    format: 'der',
    type: 'spki',
  })
  const signature = crypto.sign(null, Buffer.from('text'), signing)
  if (!crypto.verify(null, Buffer.from('text'), told, signature)) throw new Error('not the key of the public row')
  return { opened, owner: owner.did, runtime: runtime.did, did: did(rawPublic(signing)) }
}

const asked = JSON.parse(readFileSync(0, 'utf8'))
process.stdout.write(JSON.stringify({ write, read }[process.argv[2]](asked)))
