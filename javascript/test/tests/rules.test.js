import assert from 'node:assert/strict'
import { test } from 'node:test'

import { rulesOf } from '../source/rules.js'

test('a method may have several actions, in order', () =>
  assert.deepEqual(rulesOf({ personal_sign: ['approve*2', 'reject'], eth_sign: 'hang' }), [
    'personal_sign=approve*2',
    'personal_sign=reject',
    'eth_sign=hang',
  ]))

test('texts stay as they are', () =>
  assert.deepEqual(rulesOf(['a@https://x.example=reject']), ['a@https://x.example=reject']))
