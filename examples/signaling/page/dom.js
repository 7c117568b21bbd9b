// Small things that every part of the page needs.

export const $ = (id) => document.getElementById(id);

/** An element with these properties, data attributes and children. */
export function element(name, { dataset = {}, ...properties }, children = []) {
  const made = Object.assign(document.createElement(name), properties);
  Object.assign(made.dataset, dataset);
  made.append(...children);
  return made;
}

/** What stands in a picture's place. */
export const initials = (name) => (name.match(/[A-Za-z0-9]/) ?? ["?"])[0].toUpperCase();

/** Only when it is another text: what is announced is announced once. */
export function setText(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

/** A fault, in words; an empty text takes it away. */
export function complain(text) {
  setText("problem", text);
  $("problem").hidden = text === "";
}

let noticeTimer = null;

/** Something that happened by itself; it goes away after a while. */
export function notify(text) {
  setText("notice", text);
  $("notice").hidden = false;
  clearTimeout(noticeTimer);
  noticeTimer = setTimeout(() => { $("notice").hidden = true; $("notice").textContent = ""; }, 8000);
}
