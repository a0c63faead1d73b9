"""Numbered frames from one interface to another through a switch, no more than WINDOW of them under way, so that none is lost
for want of room: vswitchd_many.py FROM TO LEAST STOP.

Goes on until LEAST frames have come and the file STOP is there. Prints how many were sent, came and were lost or out of
order, and the longest silence in milliseconds. Status 1 if one was lost.
"""
import os
import select
import socket
import struct
import sys
import time

WINDOW = 128
# Frames that have not come after so long are lost.
PATIENCE_S = 5.0
KIND = 0x88b5


def opened(interface, kind):
    of = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(kind))
    of.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    of.bind((interface, kind))
    return of


def main():
    begin, end, least, stop = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    # The sender hears nothing: kind 0 takes no frame in.
    out, back = opened(begin, 0), opened(end, KIND)
    back.setblocking(False)
    head = bytes.fromhex("020000000002" "020000000001") + struct.pack("!H", KIND)
    sent = got = lost = 0
    due = 0
    last = time.monotonic()
    silence = 0.0
    while got + lost < least or not os.path.exists(stop) or got + lost < sent:
        going = got + lost < least or not os.path.exists(stop)
        while going and sent - got - lost < WINDOW:
            out.send(head + struct.pack("!Q", sent) + bytes(38))
            sent += 1
        if not select.select([back], [], [], PATIENCE_S)[0]:
            lost += sent - got - lost
            due = sent
            continue
        now = time.monotonic()
        silence, last = max(silence, now - last), now
        try:
            while True:
                frame, address = back.recvfrom(64)
                # What this interface itself sends comes here, too.
                if address[2] == socket.PACKET_OUTGOING:
                    continue
                number = struct.unpack_from("!Q", frame, 14)[0]
                if number != due:
                    lost += max(0, number - due)
                due = number + 1
                got += 1
        except BlockingIOError:
            pass
    print(f"{sent} sent, {got} came, {lost} lost, longest silence {silence * 1000:.0f} ms")
    sys.exit(1 if lost or got != sent else 0)


main()
