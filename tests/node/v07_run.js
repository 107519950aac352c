// Plays every scenario at once: node v07_run.js SERVER_URL. Prints one JSON object: a failure, or null, by name.
'use strict'

const { setTimeout: sleep } = require('node:timers/promises')

const scenarios = require('./v07_scenarios')

const PATIENCE_MS = 180_000

async function giveUp() {
  await sleep(PATIENCE_MS)
  throw new Error(`It did not end within ${PATIENCE_MS} ms.`)
}

async function play(scenario, places) {
  try {
    await Promise.race([scenario(places), giveUp()])
    return null
  } catch (error) {
    return error.stack
  }
}

async function main(plainUrl) {
  process.on('unhandledRejection', () => {}) // a scenario that has failed leaves calls without an answer
  const places = { plainUrl, bridgeUrl: `${plainUrl}/compat/v0.7` }
  const names = Object.keys(scenarios)
  const outcomes = await Promise.all(names.map(name => play(scenarios[name], places)))
  const report = Object.fromEntries(names.map((name, index) => [name, outcomes[index]]))
  process.stdout.write(JSON.stringify(report), () => process.exit()) // the clients may still be polling
}

main(process.argv[2])
