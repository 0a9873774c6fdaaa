// Notes every error of the page, and everything that its policy forbids.
window.seen = { errors: [] };
const note = (event) => seen.errors.push(String(event.message || event.reason || event.blockedURI));
["error", "unhandledrejection", "securitypolicyviolation"].forEach((kind) => addEventListener(kind, note));
["error", "warn"].forEach((kind) => { console[kind] = (...words) => seen.errors.push(words.join(" ")); });
