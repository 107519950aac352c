// A program that runs beside the test, until it is stopped or the test's own process ends.

import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { findServer } from './find.js'

const START_MILLISECONDS = 30_000
const STOP_MILLISECONDS = 10_000
const LOOK_MILLISECONDS = 10
const KEPT_LINES = 200

const running = new Set()
process.once('exit', () => running.forEach((program) => program.abandon()))

/** A new temporary folder, for the program alone. */
export function temporaryFolder() {
  return mkdtempSync(join(tmpdir(), 'bridge-server-'))
}

/**
 * Starts `bridge-server` with these arguments and `--ready-file`; resolves once it is ready, to a Program
 * with its facts. `folder` is removed when it has stopped. Rejects with the program's own words if it ends
 * before it is ready.
 */
export async function startProgram(arguments_, folder) {
  const readyFile = join(folder, 'ready.json')
  const program = new Program(folder)
  try {
    program.spawn(findServer(), [...arguments_, '--ready-file', readyFile])
    program.facts = await program.readiness(readyFile)
    return program
  } catch (error) {
    await program.stop()
    throw error
  }
}

export class Program {
  #child
  #ended = Promise.resolve()
  #folder
  #lines = []
  #failure

  constructor(folder) {
    this.#folder = folder
  }

  /** What its ready file says. */
  facts = {}

  /** The last lines that it wrote. */
  get log() {
    return this.#lines.join('\n')
  }

  spawn(file, arguments_) {
    const child = spawn(file, arguments_, { env: environment(), stdio: ['ignore', 'pipe', 'pipe'] })
    this.#child = child
    child.unref() // A test that forgets to stop the program still ends.
    running.add(this)
    this.#ended = new Promise((resolve) => {
      child.once('error', (error) => resolve((this.#failure = error.message)))
      child.once('close', (code, signal) => resolve((this.#failure = endingOf(code, signal))))
    })
    this.#keepLines(child.stdout)
    this.#keepLines(child.stderr)
  }

  async readiness(readyFile) {
    const deadline = Date.now() + START_MILLISECONDS
    while (Date.now() < deadline) {
      const facts = await readFacts(readyFile)
      if (facts) return facts
      if (this.#failure) throw this.#startError(`did not start: ${this.#failure}`)
      await sleep(LOOK_MILLISECONDS)
    }
    throw this.#startError(`was not ready within ${START_MILLISECONDS / 1000} s`)
  }

  /** Ends the program in good order, or by SIGKILL after 10 s, and removes its folder. */
  async stop() {
    if (this.#child && this.#failure === undefined) {
      this.#child.kill('SIGTERM')
      const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_MILLISECONDS)
      await this.#ended
      clearTimeout(timer)
    }
    running.delete(this)
    this.#removeFolder()
  }

  /** Ends the program at once, where nothing can be waited for. */
  abandon() {
    this.#child.kill('SIGKILL')
    this.#removeFolder()
  }

  #startError(reason) {
    return new Error(`bridge-server ${reason}\n${this.log}`.trimEnd())
  }

  #removeFolder() {
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 3 })
  }

  #keepLines(stream) {
    let rest = ''
    stream.setEncoding('utf8')
    stream.on('data', (text) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop()
      this.#lines = [...this.#lines, ...lines].slice(-KEPT_LINES)
    })
    stream.on('end', () => rest && this.#lines.push(rest))
    stream.unref()
  }
}

/** This process's, without settings of a server that is not the test's. The program ends with this process. */
function environment() {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('BRIDGE_'))
  return { ...Object.fromEntries(inherited), BRIDGE_STOP_WITH_PARENT: String(process.pid) }
}

function endingOf(code, signal) {
  return `it ended ${signal === null ? `with exit code ${code}` : `by ${signal}`}`
}

async function readFacts(path) {
  try {
    return JSON.parse(await readFile(path, 'utf8'))
  } catch {
    return undefined
  }
}
