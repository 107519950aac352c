import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'

import { connectBridge, startBridge } from '../source/index.js'

const SOURCE = new URL('../source/index.js', import.meta.url).href
const LOOKS = 3_000

const answers = async (url) => (await fetch(`${url}/any`).catch(() => undefined)) !== undefined

const untilGone = (url) => until(async () => !(await answers(url)))

async function until(isTrue) {
  for (let look = 0; look < LOOKS && !(await isTrue()); look++) await sleep(20)
  assert.ok(await isTrue())
}

/** A Node process of a test's own: what it printed first, and the process. */
async function startedIn(folder, program) {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    env: { ...process.env, TMPDIR: folder },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  after(() => child.kill('SIGKILL'))
  for await (const line of createInterface({ input: child.stdout })) return { child, line }
  throw new Error('the process printed nothing')
}

/** The command lines of processes that name this folder. */
function processesOf(folder) {
  const lines = readdirSync('/proc').filter(Number).map(commandLine)
  return lines.filter((line) => line.includes(folder))
}

function commandLine(number) {
  try {
    return readFileSync(`/proc/${number}/cmdline`, 'utf8')
  } catch {
    return '' // it has just ended
  }
}

const ended = (child) => new Promise((resolve) => child.once('exit', resolve))

async function inFolder(work) {
  const folder = mkdtempSync(join(tmpdir(), 'starting-'))
  try {
    await work(folder)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

test('a server that was stopped is gone, with its files', () =>
  inFolder(async (folder) => {
    const program = `
      import { startBridge } from '${SOURCE}'
      const bridge = await startBridge()
      await bridge.stop()
      await bridge.stop()
      console.log(bridge.url)`
    const { child, line: url } = await startedIn(folder, program)

    await ended(child)

    assert.equal(await answers(url), false)
    assert.deepEqual(readdirSync(folder), [])
  }))

test('a test that forgets to stop its server ends all the same, and the server with it', () =>
  inFolder(async (folder) => {
    const program = `import { startBridge } from '${SOURCE}'; console.log((await startBridge()).url)`
    const { child, line: url } = await startedIn(folder, program)

    assert.equal(await ended(child), 0)

    await untilGone(url)
    assert.deepEqual(readdirSync(folder), [])
  }))

test('a test process that is killed takes its server and its wallet with it', () =>
  inFolder(async (folder) => {
    const program = `
      import { startBridge } from '${SOURCE}'
      const bridge = await startBridge()
      console.log([bridge.url, (await bridge.wallet()).url].join(' '))
      setInterval(() => {}, 1000)`
    const { child, line } = await startedIn(folder, program)
    const urls = line.split(' ')
    assert.deepEqual(await Promise.all(urls.map(answers)), [true, true])

    child.kill('SIGKILL')

    await Promise.all(urls.map(untilGone))
  }))

for (const milliseconds of [0, 100]) {
  test(`a test process that is killed ${milliseconds} ms after the start leaves no server`, () =>
    inFolder(async (folder) => {
      const program = `
        import { startBridge } from '${SOURCE}'
        console.log('ready')
        await startBridge()
        setInterval(() => {}, 1000)`
      const { child } = await startedIn(folder, program)
      await until(() => processesOf(folder).length > 0)
      await sleep(milliseconds)

      child.kill('SIGKILL')

      await until(() => processesOf(folder).length === 0)
    }))
}

test('a setting that the server does not have is named', () =>
  assert.rejects(startBridge({ settings: { session_tll: 60 } }), /did not start: .*\n.*session_tll/s))

test('a server without accounts has none', async () => {
  const bridge = await startBridge()

  assert.deepEqual(bridge.accounts, [])
  await bridge[Symbol.asyncDispose]()
  assert.equal(await answers(bridge.url), false)
})

test('a server that is not there is named', () =>
  assert.rejects(
    connectBridge({ url: 'http://127.0.0.1:9', testToken: 't' }),
    /127\.0\.0\.1:9 does not answer/
  ))

test('a server that no variable names is explained', () =>
  assert.rejects(connectBridge({ url: undefined, testToken: undefined }), /BRIDGE_URL and BRIDGE_TEST_TOKEN/))
