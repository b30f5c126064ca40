// The envelope in another language: what docs/protocol.md says of it, in Node, without a library.
//
//   node protocol.mjs verify envelopes.json      {name: key ids that signed, or null} of every vector
//   node protocol.mjs sign KEY.pem TYPE < payload    an envelope around the payload

import { createHash, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto'
import { readFileSync } from 'node:fs'

// By kind: the payload type, and the most bytes of an envelope around one.
const TYPES = {
  command: ['application/vnd.edgeagent.command.v1+json', 32768],
  order: ['application/vnd.edgeagent.order.v1+json', 8192],
}
const MOST_SIGNATURES = 8
// What comes before the 32 raw bytes of an Ed25519 public key in SubjectPublicKeyInfo (RFC 8410).
const SPKI = Buffer.from('302a300506032b6570032100', 'hex')

export function encoding(type, payload) {
  const kind = Buffer.from(type)
  return Buffer.concat([Buffer.from(`DSSEv1 ${kind.length} `), kind, Buffer.from(` ${payload.length} `), payload])
}

export function idOf(raw) {
  return createHash('sha256').update(raw).digest('hex')
}

function bytes(text) {
  // Buffer takes whatever looks like base64: only what it would write itself is meant.
  const raw = Buffer.from(text, 'base64')
  return raw.toString('base64') === text ? raw : refuse('no base64')
}

function refuse(why) {
  throw new Error(why)
}

// JSON.parse keeps the last of two fields with one name and does not tell.
function refuseTwins(text) {
  const open = []
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],]/g)) {
    const inside = open.at(-1)
    if (token === '{') open.push({ names: new Set(), name: true })
    else if (token === '[') open.push(undefined)
    else if (token === '}' || token === ']') open.pop()
    else if (token === ',') { if (inside) inside.name = true }
    else if (inside?.name) {
      const name = JSON.parse(token)
      if (inside.names.has(name)) refuse('a field twice')
      inside.names.add(name)
      inside.name = false
    }
  }
}

function fieldsAre(value, names) {
  const own = value !== null && typeof value === 'object' && !Array.isArray(value) ? Object.keys(value) : []
  if (own.sort().join() !== names.join()) refuse('other fields')
}

function parsed(raw) {
  const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(raw)
  const envelope = JSON.parse(text)
  refuseTwins(text)
  fieldsAre(envelope, ['payload', 'payloadType', 'signatures'])
  const { payload, payloadType, signatures } = envelope
  if (typeof payload !== 'string' || typeof payloadType !== 'string') refuse('no text')
  if (!Array.isArray(signatures)) refuse('no list')
  if (signatures.length < 1 || signatures.length > MOST_SIGNATURES) refuse('too few or too many signatures')
  for (const one of signatures) {
    fieldsAre(one, ['keyid', 'sig'])
    if (typeof one.sig !== 'string' || !/^[0-9a-f]{64}$/.test(one.keyid)) refuse('no signature')
    bytes(one.sig)
  }
  return { payload: bytes(payload), payloadType, signatures }
}

export function signersOf(raw, kind, keys) {
  const [type, most] = TYPES[kind]
  if (raw.length > most) refuse('too large')
  const { payload, payloadType, signatures } = parsed(raw)
  if (payloadType !== type) refuse('another kind')
  const message = encoding(payloadType, payload)
  const good = signatures.filter(({ keyid, sig }) => {
    if (!Object.hasOwn(keys, keyid)) return false
    const key = createPublicKey({ key: Buffer.concat([SPKI, Buffer.from(keys[keyid], 'hex')]), format: 'der', type: 'spki' })
    return verify(null, message, key, bytes(sig))
  })
  return good.length ? [...new Set(good.map(({ keyid }) => keyid))] : refuse('no known key')
}

function judged(file) {
  const { policies, vectors } = JSON.parse(readFileSync(file, 'utf-8'))
  return Object.fromEntries(vectors.map(({ name, kind, policy, envelope, spaces }) => {
    try {
      const raw = Buffer.concat([Buffer.from(envelope, 'base64'), Buffer.alloc(spaces, ' ')])
      return [name, signersOf(raw, kind, policies[policy].keys[kind])]
    } catch {
      return [name, null]
    }
  }))
}

function signed(pem, type, payload) {
  const key = createPrivateKey(readFileSync(pem))
  const raw = createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(SPKI.length)
  const sig = sign(null, encoding(type, payload), key).toString('base64')
  return { payload: payload.toString('base64'), payloadType: type, signatures: [{ keyid: idOf(raw), sig }] }
}

const [, , what, where, type] = process.argv
console.log(JSON.stringify(what === 'verify' ? judged(where) : signed(where, type, readFileSync(0))))
