// Times in the viewer's zone: 12:03:04, with the date before another day's. The title keeps the full time in UTC.
(() => {
  const two = (number) => String(number).padStart(2, '0')
  const dayOf = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`

  function write(time) {
    if (time.shown === time.dateTime + time.textContent) return
    const at = new Date(time.dateTime)
    if (Number.isNaN(at.getTime())) return
    const clock = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':')
    const words = dayOf(at) === dayOf(new Date()) ? clock : `${dayOf(at)} ${clock}`
    time.textContent = words
    time.shown = time.dateTime + words
    if (!time.title) time.title = `${at.toISOString().replace('T', ' ').replace('Z', '')} UTC`
  }

  const writeAll = () => document.querySelectorAll('time[datetime*="T"]').forEach(write)
  new MutationObserver(writeAll).observe(document.documentElement, { childList: true, subtree: true, characterData: true })
  writeAll()
})()
