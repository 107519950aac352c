// Settings as a TOML file, which the server reads: a command line would show secrets to other users.

/** The text of a TOML file of these settings. Throws a TypeError for a value that no setting has. */
export function tomlOf(settings) {
  return Object.entries(settings)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${keyOf(name)} = ${valueOf(name, value)}\n`)
    .join('')
}

function keyOf(name) {
  if (!/^[a-z][a-z0-9_]*$/.test(name))
    throw new TypeError(`${JSON.stringify(name)} is no setting's name: write max_wait`)
  return name
}

function valueOf(name, value) {
  if (typeof value === 'string') return stringOf(value)
  if (typeof value === 'boolean' || typeof value === 'bigint') return String(value)
  if (typeof value === 'number' && Number.isFinite(value)) return String(value)
  if (Array.isArray(value)) return `[${value.map((each) => valueOf(name, each)).join(', ')}]`
  throw new TypeError(`The setting ${name} is a string, a number, a boolean or an array of these`)
}

// JSON escapes all that TOML does, but for the character DEL.
function stringOf(text) {
  return JSON.stringify(text).replaceAll('\x7f', '\\u007f')
}
