import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'

import { findServer } from '../source/find.js'

const folder = mkdtempSync(join(tmpdir(), 'find-server-'))
after(() => rmSync(folder, { recursive: true }))

function program(...parts) {
  const path = join(folder, ...parts)
  mkdirSync(join(path, '..'), { recursive: true })
  writeFileSync(path, '#!/bin/sh\n', { mode: 0o755 })
  return path
}

const onPath = program('path', 'bridge-server')
const inVenv = program('venv', 'bin', 'bridge-server')
const named = program('named')
const PATH = join(folder, 'path')
const VENV = join(folder, 'venv')

test('the variable BRIDGE_SERVER_BIN comes first', () =>
  assert.equal(findServer({ BRIDGE_SERVER_BIN: named, PATH, BRIDGE_SERVER_VENV: VENV }), named))

test('PATH comes before the virtual environment', () =>
  assert.equal(findServer({ PATH, BRIDGE_SERVER_VENV: VENV }), onPath))

test('the virtual environment is looked through', () =>
  assert.equal(findServer({ PATH: '/nowhere', BRIDGE_SERVER_VENV: VENV }), inVenv))

test('a wrong BRIDGE_SERVER_BIN is named', () =>
  assert.throws(() => findServer({ BRIDGE_SERVER_BIN: folder, PATH }), /BRIDGE_SERVER_BIN names/))

test('a server that is nowhere is explained', () =>
  assert.throws(() => findServer({ PATH: '/nowhere' }), /pip install PATH_OF_THE_CHECKOUT/))
