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

/** A new temporary folder, for the program alone. */
export function temporaryFolder() {
  return mkdtempSync(join(tmpdir(), 'bridge-server-'))
}

/**
 * Starts `bridge-server` with these arguments and `--ready-file`; resolves once it is ready, to a Program with
 * its facts. `folder` is removed when it has stopped. Rejects with the program's own words if it ends before.
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
  #kill = () => this.#child?.kill('SIGKILL')

  constructor(folder) {
    this.#folder = folder
  }

  /** What its ready file says. */
  facts = {}

  /** The last lines that it wrote to standard error. */
  get log() {
    return this.#lines.join('\n')
  }

  spawn(file, arguments_) {
    const child = spawn(file, arguments_, { stdio: ['ignore', 'ignore', 'pipe'] })
    this.#child = child
    process.once('exit', this.#kill)
    this.#ended = new Promise((resolve) => {
      child.once('error', (error) => resolve((this.#failure = error.message)))
      child.once('exit', (code, signal) => resolve((this.#failure = `it ended with ${signal ?? `exit code ${code}`}`)))
    })
    this.#keepLines(child.stderr)
  }

  async readiness(readyFile) {
    const deadline = Date.now() + START_MILLISECONDS
    while (Date.now() < deadline) {
      const facts = await readFacts(readyFile)
      if (facts) return facts
      if (this.#failure) throw new Error(`bridge-server did not start: ${this.#failure}\n${this.log}`.trimEnd())
      await sleep(LOOK_MILLISECONDS)
    }
    throw new Error(`bridge-server was not ready within ${START_MILLISECONDS / 1000} s\n${this.log}`.trimEnd())
  }

  /** Ends the program in good order, or by SIGKILL after 10 s, and removes its folder. */
  async stop() {
    if (this.#child && this.#failure === undefined) {
      this.#child.kill('SIGTERM')
      const timer = setTimeout(this.#kill, STOP_MILLISECONDS)
      await this.#ended
      clearTimeout(timer)
    }
    process.removeListener('exit', this.#kill)
    rmSync(this.#folder, { recursive: true, force: true })
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
    stream.unref?.()
  }
}

async function readFacts(path) {
  try {
    return JSON.parse(await readFile(path, 'utf8'))
  } catch {
    return undefined
  }
}
