// Where the program `bridge-server` is.

import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const NAME = 'bridge-server'

/**
 * The path of the program: BRIDGE_SERVER_BIN, or `bridge-server` on PATH, or in the virtual environment that
 * BRIDGE_SERVER_VENV names. Throws an Error that says what to install.
 */
export function findServer(environment = process.env) {
  const { BRIDGE_SERVER_BIN: named, BRIDGE_SERVER_VENV: venv, PATH: path = '' } = environment
  if (named) {
    if (isProgram(named)) return named
    throw new Error(`BRIDGE_SERVER_BIN names ${named}, which is no program that can be run`)
  }
  const folders = path.split(delimiter).filter(Boolean)
  if (venv) folders.push(join(venv, 'bin'))
  const found = folders.map((folder) => join(folder, NAME)).find(isProgram)
  if (found) return found
  throw new Error(
    (venv
      ? `There is no bridge-server in the virtual environment ${venv}. `
      : 'bridge-server is not on PATH. ') +
      'Install it in a virtual environment from a checkout of Bridge Server (python3 -m venv .venv && ' +
      '.venv/bin/pip install PATH_OF_THE_CHECKOUT), and name the environment in BRIDGE_SERVER_VENV ' +
      'or the program in BRIDGE_SERVER_BIN.'
  )
}

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
