// Forms: the characters of a notification are counted while it is typed (code points, as the server counts them),
// and a choice in a drop-down acts at once.
(() => {
  function counted(text) {
    const line = text.replace(/[\r\n\u2028\u2029]+/g, ' ').replaceAll('\t', ' ').replace(/^ +| +$/g, '')
    return [...line].length
  }

  document.addEventListener('input', ({ target }) => {
    const shown = target.dataset?.most && target.form?.querySelector(`[data-counts="${target.name}"]`)
    if (!shown) return
    const length = counted(target.value)
    shown.textContent = length
    shown.classList.toggle('fault', length > Number(target.dataset.most))
  })

  document.addEventListener('change', ({ target }) => {
    if (target.matches('[data-acts] select')) target.form.requestSubmit()
  })
})()
