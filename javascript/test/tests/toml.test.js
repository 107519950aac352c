import assert from 'node:assert/strict'
import { test } from 'node:test'

import { tomlOf } from '../source/toml.js'

test('each setting is a line', () => {
  const text = tomlOf({
    session_ttl: 60,
    access_log: true,
    rpc_hosts: ['a.example', 'b"\n\x7f'],
    left_out: undefined,
  })

  assert.equal(text, 'session_ttl = 60\naccess_log = true\nrpc_hosts = ["a.example", "b\\"\\n\\u007f"]\n')
})

test('a value that no setting has is refused', () =>
  assert.throws(() => tomlOf({ a: { b: 1 } }), /The setting a/))

test('a name that no setting has is refused', () =>
  assert.throws(() => tomlOf({ 'a = 1\nb': 1 }), /no setting's name/))
