// Spans of time, as tests write them.

const SECONDS = { milliseconds: 0.001, seconds: 1, minutes: 60, hours: 3_600, days: 86_400, weeks: 604_800 }

/** Seconds: of a number of seconds, or of an object such as `{ days: 1, hours: 2 }`. Throws a TypeError. */
export function secondsOf(duration) {
  if (typeof duration === 'number' && Number.isFinite(duration)) return duration
  if (typeof duration !== 'object' || duration === null || !Object.keys(duration).length)
    throw unreadable(duration)
  let seconds = 0
  for (const [unit, amount] of Object.entries(duration)) {
    if (!Object.hasOwn(SECONDS, unit) || typeof amount !== 'number' || !Number.isFinite(amount))
      throw unreadable(duration)
    seconds += SECONDS[unit] * amount
  }
  return seconds
}

function unreadable(duration) {
  const units = Object.keys(SECONDS).join(', ')
  return new TypeError(
    `${JSON.stringify(duration)} is no span of time: give seconds, or an object of ${units}`
  )
}
