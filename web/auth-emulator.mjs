// Stands in for `firebase emulators:start --only auth` where the Firebase CLI isn't installed: what
// the SDK asks of the Auth emulator for a user who signs in anonymously, answered as that does.
// Run it with a port and a project.
import { randomBytes } from "node:crypto";
import { createServer } from "node:http";

const [port, project] = process.argv.slice(2);
const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");

/** A token that nobody has signed. */
function tokenOf(user) {
  const now = Math.floor(Date.now() / 1_000);
  return `${part({ alg: "none", typ: "JWT" })}.${part({
    provider_id: "anonymous", auth_time: now, user_id: user, firebase: { identities: {}, sign_in_provider: "anonymous" },
    iat: now, exp: now + 3_600, aud: project, iss: `https://securetoken.google.com/${project}`, sub: user,
  })}.`;
}

const answers = {
  "accounts:signUp"() {
    const localId = randomBytes(14).toString("hex");
    return { kind: "identitytoolkit#SignupNewUserResponse", localId, idToken: tokenOf(localId), refreshToken: localId, expiresIn: "3600" };
  },
  "accounts:lookup"({ idToken }) {
    const { sub: localId } = JSON.parse(Buffer.from(idToken.split(".")[1], "base64url"));
    return { kind: "identitytoolkit#GetAccountInfoResponse", users: [{ localId, createdAt: String(Date.now()), lastLoginAt: String(Date.now()) }] };
  },
  token(_, form) {
    const user = form.get("refresh_token");
    return { id_token: tokenOf(user), access_token: tokenOf(user), expires_in: "3600", refresh_token: user, token_type: "Bearer", user_id: user, project_id: project };
  },
};

createServer(async (request, response) => {
  response.setHeader("Access-Control-Allow-Origin", request.headers.origin ?? "*");
  if (request.method === "OPTIONS") {
    response.setHeader("Access-Control-Allow-Methods", "GET,HEAD,PUT,PATCH,POST,DELETE");
    response.setHeader("Access-Control-Allow-Headers", request.headers["access-control-request-headers"] ?? "");
    return response.writeHead(204).end();
  }
  let body = "";
  for await (const data of request) body += data;
  const answer = answers[request.url.replace(/\?.*/, "").split("/").at(-1)];
  if (!answer) return response.writeHead(404).end();
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify(answer(body.startsWith("{") ? JSON.parse(body) : {}, new URLSearchParams(body))));
}).listen(Number(port), "127.0.0.1", () => console.log("ready"));
