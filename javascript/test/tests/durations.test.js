import assert from 'node:assert/strict'
import { test } from 'node:test'

import { secondsOf } from '../source/durations.js'

test('a number is seconds', () => assert.equal(secondsOf(1.5), 1.5))

test('units are added up', () => assert.equal(secondsOf({ days: 1, hours: 1, milliseconds: 500 }), 90_000.5))

for (const wrong of [undefined, null, {}, NaN, { fortnights: 1 }, { days: '1' }, { toString: 1 }]) {
  test(`${JSON.stringify(wrong)} is refused`, () => assert.throws(() => secondsOf(wrong), /span of time/))
}
