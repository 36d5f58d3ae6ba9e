"""Pictures that last: as jobs of the journal, as kept latents, edited, streamed; and who is told of a job's end."""
import base64
import contextlib
import hashlib
import hmac
import http.client
import http.server
import json
import pathlib
import queue
import shutil
import ssl
import subprocess
import tempfile
import threading
import unittest

from jobs_test import job, rows, submit, wait_over
from lares_server import PATIENCE, Server, chat_body
from pictures_test import APPLE, png_size, result, wait

LONG = '"a red apple" | encode | sample 120 seed 7 | out png\n'


def image_server(*flags, **more):
    server = Server(*flags, **more)
    server.wait_for(lambda: server.post("/v1/sketches/check", {"sketch": APPLE})[0] == 200, "found the image model")
    return server


def fetch(server, path, headers=None):
    """-> (status, content type, bytes)"""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.getheader("Content-Type"), response.read()


def sketch_job(server, sketch, **fields):
    status, answer = server.post("/v1/jobs", {"sketch": sketch, **fields})
    if status != 202:
        raise RuntimeError((status, answer))
    return answer["id"]


def png_of(server, body):
    status, answer = server.post("/v1/images/generations", body)
    if status != 200:
        raise RuntimeError((status, answer))
    return base64.b64decode(answer["data"][0]["b64_json"])


class PictureJobs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = image_server("--webhooks-reach", "any")
        cls.addClassCleanup(cls.server.stop)

    def test_a_sketch_is_a_job_whose_picture_is_a_file(self):
        server = self.server
        _, plain = wait(server, APPLE)
        id = sketch_job(server, APPLE)
        over = wait_over(server, id)
        self.assertEqual((over["state"], over["path"], over["class"]), ("done", "/v1/sketches", "image"), over)
        self.assertEqual(over["outputs"][0]["media_type"], "image/png")
        picture = result(server, plain, 0)[1]
        for path in (f"/v1/jobs/{id}/result", over["outputs"][0]["url"]):
            self.assertEqual(fetch(server, path), (200, "image/png", picture))
        self.assertEqual(over["outputs"][0]["bytes"], len(picture))
        status, kind, text = fetch(server, f"/v1/jobs/{id}/result", {"Accept": "application/json"})
        self.assertEqual((status, kind), (200, "application/json"))
        self.assertEqual(json.loads(text)["outputs"][0]["url"], f"/v1/jobs/{id}/result/0")
        self.assertEqual(fetch(server, f"/v1/jobs/{id}/result/1")[0], 404)

    def test_several_files_are_numbered_beside_their_answer(self):
        server = self.server
        id = sketch_job(server, 'in what : Text\nout (sample ("a {what}" | encode) 2 seed [1 2]) png\n',
                        inputs={"what": "cup"})
        self.assertEqual(wait_over(server, id)["state"], "done")
        status, kind, text = fetch(server, f"/v1/jobs/{id}/result")
        self.assertEqual((status, kind), (200, "application/json"))
        self.assertEqual(len(json.loads(text)["outputs"]), 2)
        first, second = (fetch(server, f"/v1/jobs/{id}/result/{i}")[2] for i in (0, 1))
        self.assertEqual((png_size(first), first == second), ((64, 64), False))

    def test_openai_and_a1111_answer_as_their_paths_do(self):
        server = self.server
        body = {"prompt": "a green tree", "seed": 7, "n": 2}
        _, plain = server.post("/v1/images/generations", body)
        key = {"Idempotency-Key": "tree-1"}
        status, first = server.post("/v1/images/generations", body, key)
        self.assertEqual((status, first["data"]), (200, plain["data"]))
        self.assertEqual(server.post("/v1/images/generations", body, key), (200, first))
        self.assertEqual(server.post("/v1/images/generations", {**body, "seed": 8}, key)[0], 409)
        status, headers, text = server.request("POST", "/v1/images/generations", body, {"Prefer": "respond-async"})
        self.assertEqual((status, headers["Preference-Applied"]), (202, "respond-async"))
        id = json.loads(text)["id"]
        wait_over(server, id)
        self.assertEqual(json.loads(fetch(server, f"/v1/jobs/{id}/result")[2])["data"], plain["data"])
        body = {"prompt": "a red apple", "steps": 4, "seed": 11, "batch_size": 1}
        _, plain = server.post("/sdapi/v1/txt2img", body)
        id = submit(server, body, "/sdapi/v1/txt2img")
        wait_over(server, id)
        self.assertEqual(fetch(server, f"/v1/jobs/{id}/result")[2], base64.b64decode(plain["images"][0]))
        text = fetch(server, f"/v1/jobs/{id}/result", {"Accept": "application/json"})[2]
        self.assertEqual(json.loads(text)["images"], plain["images"])

    def test_what_cannot_be_drawn_is_refused_at_once(self):
        server = self.server
        status, answer = server.post("/v1/jobs", {"sketch": '"a" | encod | sample 2 | out png'})
        self.assertEqual((status, answer["error"]["code"]), (400, "sketch_faulty"), answer)
        self.assertEqual(answer["errors"][0]["code"], "L1")
        status, answer = server.post("/v1/jobs", {"request": {"path": "/v1/images/generations", "body": {"n": 3}}})
        self.assertEqual((status, answer["error"]["param"]), (400, "prompt"))
        self.assertEqual(server.post("/v1/jobs", {})[1]["error"]["param"], "request")

    def test_a_running_picture_is_cancelled_and_tried_again(self):
        server = self.server
        id = sketch_job(server, '"a ship" | encode | sample 500 seed 5 | out png\n')
        server.wait_for(lambda: job(server, id)["state"] == "running", "running")
        self.assertEqual(server.request("DELETE", f"/v1/jobs/{id}")[0], 200)
        self.assertEqual(job(server, id)["state"], "cancelled")
        self.assertEqual(server.post(f"/v1/jobs/{id}/retry", {})[0], 202)
        server.wait_for(lambda: job(server, id)["state"] == "running", "running again")
        self.assertEqual(server.request("DELETE", f"/v1/jobs/{id}")[0], 200)
        server.lares("usage", "--check")

    def test_edits(self):
        server = self.server
        png = png_of(server, {"prompt": "a red apple", "seed": 1})
        fields = {"prompt": "a banana", "strength": "0.5", "seed": "3", "n": "2"}
        boundary = "edge"
        body = b"".join(f"--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n".encode()
                        for name, value in fields.items())
        body += (f"--{boundary}\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a.png\"\r\n"
                 "Content-Type: image/png\r\n\r\n").encode() + png + f"\r\n--{boundary}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        status, _, text = server.request("POST", "/v1/images/edits", body, headers)
        self.assertEqual(status, 200, text)
        data = json.loads(text)["data"]
        self.assertEqual([png_size(base64.b64decode(d["b64_json"])) for d in data], [(64, 64)] * 2)
        asked = {"prompt": "a banana", "strength": 0.5, "seed": 3, "n": 2, "image": base64.b64encode(png).decode()}
        self.assertEqual(server.post("/v1/images/edits", asked)[1]["data"], data)
        # The form with a key is the same job whatever its boundary is.
        keyed = {**headers, "Idempotency-Key": "edit-1"}
        _, _, first = server.request("POST", "/v1/images/edits", body, keyed)
        keyed["Content-Type"] = "multipart/form-data; boundary=other"
        _, _, again = server.request("POST", "/v1/images/edits", body.replace(b"--edge", b"--other"), keyed)
        self.assertEqual(json.loads(first)["data"], data)
        self.assertEqual(again, first)
        self.assertEqual(len(rows(server, "SELECT 1 FROM job WHERE kind = '/v1/images/edits'")), 1)
        for wrong, param in (({**asked, "image": "AAAA"}, "image"), ({**asked, "strength": 2}, "strength"),
                             ({"prompt": "a"}, "image")):
            status, answer = server.post("/v1/images/edits", wrong)
            self.assertEqual((status, answer["error"]["param"]), (400, param), answer)
        status, _, text = server.request("POST", "/v1/images/edits", body[:-9], headers)
        self.assertEqual((status, json.loads(text)["error"]["code"]), (400, "form_malformed"))
        status, _, text = server.request("POST", "/v1/chat/completions", body, headers)
        self.assertEqual(status, 415)

    def test_a_call_that_lasts_too_long_becomes_a_job(self):
        with image_server("--jobs-wait", "1s") as server:
            status, headers, text = server.request("POST", "/v1/chat/completions",
                                                   chat_body("Tell me a story", max_tokens=600, ignore_eos=True, n=8))
            self.assertEqual(status, 202, text)
            answer = json.loads(text)
            self.assertEqual((answer["object"], headers["Location"]), ("job", f"/v1/jobs/{answer['id']}"))
            self.assertEqual(wait_over(server, answer["id"])["state"], "done")
            text = json.loads(server.get(f"/v1/jobs/{answer['id']}/result")[1])
            self.assertEqual(text["usage"]["completion_tokens"], 8 * 600)
            server.lares("usage", "--check")


class Latents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = image_server()
        cls.addClassCleanup(cls.server.stop)

    def kept(self, sketch):
        status, answer = wait(self.server, sketch)
        self.assertEqual((status, answer["status"]), (200, "done"), answer)
        return answer

    def test_a_kept_latent_is_the_picture_and_begins_others(self):
        server = self.server
        made = self.kept('small = "a house" | encode | sample 6 seed 3\nout small png\nkeep small 7d\n')
        handle = made["kept"][0]["handle"]
        self.assertEqual(made["kept"][0]["name"], "small")
        again = self.kept(f"{handle} | out png\n")
        self.assertEqual(result(server, again, 0), result(server, made, 0))
        self.assertEqual((again["record"]["unet_steps"], again["record"]["text_encodes"]), (0, 0))
        changed = self.kept(f'{handle} | resize 2x | sample ("a boat" | encode) 4 from 0.5 seed 1 | out png\n')
        self.assertEqual(png_size(result(server, changed, 0)[1]), (128, 128))
        found = json.loads(server.get(f"/v1/latents/{handle}")[1])
        self.assertEqual((found["cells"], found["width"], found["dtype"], found["noise"]), ("16x16", 64, "f32", None))
        listed = json.loads(server.get("/v1/latents")[1])["data"]
        self.assertIn(handle, [latent["handle"] for latent in listed])

    def test_a_schedule_is_carried_on_as_if_it_had_not_stopped(self):
        server = self.server
        whole = self.kept('out (sample ("a fox" | encode) 6 seed 9) png\n')
        begun = self.kept('mid = sample ("a fox" | encode) 6 seed 9 until 4\nkeep mid 1h\n')
        handle = begun["kept"][0]["handle"]
        self.assertEqual(begun["outputs"], [])
        self.assertEqual(json.loads(server.get(f"/v1/latents/{handle}")[1])["noise"]["done"], 4)
        server.kill()
        server.start()
        server.wait_for(lambda: server.post("/v1/sketches/check", {"sketch": APPLE})[0] == 200, "found the model")
        ended = self.kept(f'out ({handle} | sample ("a fox" | encode)) png\n')
        self.assertEqual(ended["record"]["unet_steps"], 2)
        picture = result(server, ended, 0)
        again = self.kept('out (sample ("a fox" | encode) 6 seed 9) png\n')
        self.assertEqual(picture, result(server, again, 0))
        self.assertEqual(len(whole["outputs"]), 1)

    def test_gone_unknown_and_wrong(self):
        server = self.server
        handle = self.kept('a = "a" | encode | sample 2 seed 1\nkeep a 1h\n')["kept"][0]["handle"]
        self.assertEqual(server.request("DELETE", f"/v1/latents/{handle}")[0], 200)
        status, text = server.get(f"/v1/latents/{handle}")
        self.assertEqual((status, json.loads(text)["error"]["code"]), (410, "latent_expired"))
        self.assertEqual(server.get("/v1/latents/lat:abc")[0], 404)
        status, answer = wait(server, f"{handle} | out png\n")
        self.assertEqual((status, answer["errors"][0]["code"]), (400, "N1"), answer)
        self.assertIn("expired", answer["errors"][0]["message"])
        short = self.kept('a = "a" | encode | sample 2 seed 1\nkeep a 1ms\n')["kept"][0]["handle"]
        server.wait_for(lambda: server.get(f"/v1/latents/{short}")[0] == 410, "expired")
        server.wait_for(lambda: rows(server, f"SELECT 1 FROM latent WHERE id = '{short[4:]}'") != [], "in the journal")
        for sketch in ('c = "a" | encode\nkeep c 1d\n', f"a = {handle}\nkeep a 1d\n"):
            self.assertEqual(wait(server, sketch)[0], 400)
        server.lares("usage", "--check")

    def test_jobs_keep_their_latents_in_one_place(self):
        server = self.server
        id = sketch_job(server, 'a = "a cup" | encode | sample 3 seed 4\nout a png\nkeep a 1d\n')
        wait_over(server, id)
        text = fetch(server, f"/v1/jobs/{id}/result", {"Accept": "application/json"})[2]
        handle = json.loads(text)["kept"][0]["handle"]
        later = sketch_job(server, f"{handle} | out png\n")
        wait_over(server, later)
        self.assertEqual(fetch(server, f"/v1/jobs/{later}/result"), fetch(server, f"/v1/jobs/{id}/result"))


class Texts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = image_server()
        cls.addClassCleanup(cls.server.stop)

    def test_what_a_model_writes_becomes_a_picture(self):
        server = self.server
        sketch = ('use starter-image\nin idea : Text = "a red apple"\n'
                  'brief = idea | ask starter-chat "one short sentence" max 12 seed 1\n'
                  'out (brief | encode | sample 4 seed 3) png\nout brief txt\nout brief json\n')
        status, answer = wait(server, sketch)
        self.assertEqual((status, answer["status"]), (200, "done"), answer)
        self.assertEqual([o["medium"] for o in answer["outputs"]], ["png", "txt", "json"])
        text = result(server, answer, 1)[1].decode()
        self.assertTrue(text.strip())
        self.assertEqual(json.loads(result(server, answer, 2)[1]), text)
        # The same words by themselves are the same picture.
        _, same = wait(server, f"use starter-image\n{json.dumps(text, ensure_ascii=False)} | encode | sample 4 seed 3 | out png\n")
        self.assertEqual(result(server, same, 0), result(server, answer, 0))
        # And it was a generation like any other.
        models = {row["key"]: row for row in json.loads(server.get("/v1/usage?by=model")[1])["data"]}
        self.assertGreater(models["starter-chat"]["output_tokens"], 0)
        server.lares("usage", "--check")

    def test_notes_become_vectors(self):
        server = self.server
        status, answer = wait(server, "in notes : [Text]\nout (notes | chunk 4 | embed starter-embed) npy\n"
                              "out (notes | embed starter-embed) json\n",
                              inputs={"notes": ["one two three four five six", "seven"]})
        self.assertEqual((status, answer["status"]), (200, "done"), answer)
        media = [o["medium"] for o in answer["outputs"]]
        self.assertEqual(media[-2:], ["json", "json"])
        self.assertGreater(media.count("npy"), 2)
        kind, npy = result(server, answer, 0)
        self.assertEqual((kind, npy[:6]), ("application/x-npy", b"\x93NUMPY"))
        _, plain = server.post("/v1/embeddings", {"model": "starter-embed", "input": "seven"})
        mine = json.loads(result(server, answer, len(media) - 1)[1])
        self.assertEqual(len(mine), len(plain["data"][0]["embedding"]))
        for a, b in zip(mine, plain["data"][0]["embedding"]):
            self.assertAlmostEqual(a, b, places=3)

    def test_what_a_text_model_refuses_ends_the_sketch(self):
        status, answer = wait(self.server, 'in notes : Text\nout (notes | ask starter-chat max 4) txt\n',
                              inputs={"notes": "word " * 20000})
        self.assertEqual((status, answer["status"]), (200, "failed"), answer)
        self.assertEqual(answer["error"]["code"], "context_length_exceeded")

    def test_a_sketch_that_asks_is_cancelled_with_what_it_asked(self):
        server = self.server
        _, answer = server.post("/v1/sketches", {"sketch": 'out ("a story" | ask starter-chat max 2000 seed 1) txt\n'})
        server.wait_for(lambda: server.metric("lares_jobs_running") > 0, "writing")
        self.assertEqual(server.request("DELETE", f"/v1/sketches/{answer['id']}")[0], 200)
        server.wait_for(lambda: server.metric("lares_jobs_running") == 0, "stopped")


class Sharing(unittest.TestCase):
    def test_another_member_has_what_was_shared_and_nothing_else(self):
        keys = {}

        def members(data):
            import subprocess
            from lares_server import BINARY
            for name in ("eve", "ben"):
                done = subprocess.run([BINARY, "member", "add", name, "--data", data], capture_output=True, text=True,
                                      check=True)
                keys[name] = next(word for word in done.stdout.split() if word.startswith("lares-"))

        with image_server(prepare=members) as server:
            eve, ben = ({"Authorization": f"Bearer {keys[name]}"} for name in ("eve", "ben"))
            _, _, text = server.request("POST", "/v1/sketches", {"sketch": 'a = "a" | encode | sample 2 seed 1\nkeep a 1d\n'},
                                        {**eve, "Prefer": "wait"})
            handle = json.loads(text)["kept"][0]["handle"]
            self.assertEqual(server.request("GET", f"/v1/latents/{handle}", headers=eve)[0], 200)
            self.assertEqual(server.request("GET", f"/v1/latents/{handle}", headers=ben)[0], 404)
            use = {"sketch": f"{handle} | out png\n"}
            self.assertEqual(server.request("POST", "/v1/sketches", use, {**ben, "Prefer": "wait"})[0], 400)
            self.assertIn("ben", server.lares("share", handle, "ben", "--key", keys["eve"], "--server", server.url))
            self.assertEqual(server.request("GET", f"/v1/latents/{handle}", headers=ben)[0], 200)
            _, _, text = server.request("POST", "/v1/sketches", use, {**ben, "Prefer": "wait"})
            self.assertEqual(json.loads(text)["status"], "done")
            self.assertEqual(server.request("DELETE", f"/v1/latents/{handle}", headers=ben)[0], 404)
            status, _, text = server.request("POST", f"/v1/latents/{handle}/share", {"member": "nobody"}, eve)
            self.assertEqual((status, json.loads(text)["error"]["param"]), (400, "member"))


class Restarts(unittest.TestCase):
    def test_a_picture_comes_though_the_server_was_killed(self):
        with image_server() as server:
            expected = sketch_job(server, LONG)
            self.assertEqual(wait_over(server, expected)["state"], "done")
            picture = fetch(server, f"/v1/jobs/{expected}/result")
        with image_server() as server:
            # The second waits behind the first; neither seed nor size is said in the third.
            ids = [sketch_job(server, LONG), sketch_job(server, LONG.replace("seed 7", "seed 8"))]
            ids.append(submit(server, {"prompt": "a boat", "steps": 10}, "/v1/images/generations"))
            server.wait_for(lambda: job(server, ids[0])["state"] == "running", "running")
            server.kill()
            server.lares("usage", "--check")
            server.start()
            for id in ids:
                self.assertEqual(wait_over(server, id)["state"], "done", job(server, id))
            self.assertEqual(fetch(server, f"/v1/jobs/{ids[0]}/result"), picture)
            self.assertEqual(png_size(fetch(server, f"/v1/jobs/{ids[2]}/result")[2]), (64, 64))
            self.assertGreater(job(server, ids[0])["attempts"], 1)
            server.lares("usage", "--check")
            # And what is done is there after another one.
            server.kill()
            server.start()
            self.assertEqual(fetch(server, f"/v1/jobs/{ids[0]}/result"), picture)


class Receiver:
    """Takes webhooks on a port of this machine; answers with the statuses that it is given, then 200."""

    def __init__(self, *statuses, certificate=None):
        self.got = queue.Queue()
        left = list(statuses)
        got = self.got

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(left.pop(0) if left else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()
                got.put((self.path, dict(self.headers), body))

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.server.handle_error = lambda *_: None  # A client that turns away.
        self.url = f"{scheme}://127.0.0.1:{self.server.server_port}/hook?x=1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def next(self):
        return self.got.get(timeout=PATIENCE)


def certificate_for(folder, address):
    """A certificate and its key in one file, signed by itself."""
    path = f"{folder}/{address}.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=test", "-addext",
                    f"subjectAltName=IP:{address}", "-keyout", f"{path}.key", "-out", path], check=True, capture_output=True)
    with open(path, "a") as out, open(f"{path}.key") as key:
        out.write(key.read())
    return path


def hooked(server, url, **body):
    return server.post("/v1/jobs", {"request": {"path": "/v1/chat/completions", "body": chat_body("Hello", **body)},
                                    "webhook": {"url": url}})


class Webhooks(unittest.TestCase):
    def test_over_tls_only_to_whom_the_certificate_names(self):
        folder = tempfile.mkdtemp(prefix="lares-tls-")
        self.addCleanup(shutil.rmtree, folder)
        good, other = (certificate_for(folder, address) for address in ("127.0.0.1", "127.0.0.2"))
        trusted = f"{folder}/trusted.pem"
        pathlib.Path(trusted).write_text(pathlib.Path(good).read_text() + pathlib.Path(other).read_text())
        unknown = certificate_for(tempfile.mkdtemp(dir=folder), "127.0.0.1")
        with Server("--webhooks-reach", "any", env={"SSL_CERT_FILE": trusted}) as server:
            with Receiver(certificate=good) as receiver:
                status, answer = hooked(server, receiver.url, max_tokens=4)
                self.assertEqual(status, 202, answer)
                _, headers, body = receiver.next()
                self.assertEqual(json.loads(body)["data"]["id"], answer["id"])
            for certificate in (other, unknown):  # Of another address; of nobody that is trusted.
                with Receiver(certificate=certificate) as receiver:
                    status, answer = hooked(server, receiver.url, max_tokens=4)
                    self.assertEqual(status, 202, answer)
                    server.wait_for(lambda: job(server, answer["id"])["webhook"]["tries"] >= 1, "tried")
                    self.assertIn("certificate", job(server, answer["id"])["webhook"]["reason"].lower())
                    self.assertTrue(receiver.got.empty())

    def test_a_receiver_hears_of_the_end_and_can_tell_who_says_so(self):
        with Server("--webhooks-reach", "any") as server, Receiver() as receiver:
            status, answer = hooked(server, receiver.url, max_tokens=4)
            self.assertEqual(status, 202, answer)
            path, headers, body = receiver.next()
            told = json.loads(body)
            self.assertEqual((path, told["type"], told["data"]["id"]), ("/hook?x=1", "job.done", answer["id"]))
            secret = json.loads(server.get("/v1/webhooks")[1])["secret"]
            signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
            key = base64.b64decode(secret.removeprefix("whsec_"))
            signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
            self.assertEqual(headers["webhook-signature"], f"v1,{signature}")
            server.wait_for(lambda: job(server, answer["id"])["webhook"]["state"] == "done", "noted")

    def test_one_that_fails_is_tried_again_and_survives_a_kill(self):
        with Server("--webhooks-reach", "any") as server, Receiver(500, 404) as receiver:
            _, answer = hooked(server, receiver.url, max_tokens=4)
            first = receiver.next()
            server.wait_for(lambda: job(server, answer["id"])["webhook"]["tries"] == 1, "noted")
            self.assertIn("500", job(server, answer["id"])["webhook"]["reason"])
            server.kill()
            server.start()
            for _ in range(2):
                again = receiver.next()
                self.assertEqual(again[1]["webhook-id"], first[1]["webhook-id"])
            server.wait_for(lambda: job(server, answer["id"])["webhook"]["state"] == "done", "delivered")

    def test_addresses_inside_are_refused(self):
        with Server() as server, Receiver() as receiver:
            for url in (receiver.url, "http://localhost:1/", "http://10.0.0.1/", "http://[::1]/", "ftp://example.org/",
                        "http://169.254.169.254/latest", "x"):
                status, answer = hooked(server, url)
                self.assertEqual((status, answer["error"]["param"]), (400, "webhook.url"), answer)
            self.assertTrue(receiver.got.empty())


if __name__ == "__main__":
    unittest.main()
