"""The message p4.tmp.P4DeviceConfig, which the tutorials' controllers wrap a program into."""
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Field = descriptor_pb2.FieldDescriptorProto


def _field(message, name, number, kind, type_name="", repeated=False):
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, type=kind, label=label)
    if type_name:
        field.type_name = type_name


_file = descriptor_pb2.FileDescriptorProto(name="p4/tmp/p4config.proto", package="p4.tmp", syntax="proto3")
_config = _file.message_type.add(name="P4DeviceConfig")
_extras = _config.nested_type.add(name="Extras")
_entry = _extras.nested_type.add(name="KvEntry")
_entry.options.map_entry = True
_field(_entry, "key", 1, Field.TYPE_STRING)
_field(_entry, "value", 2, Field.TYPE_STRING)
_field(_extras, "kv", 1, Field.TYPE_MESSAGE, ".p4.tmp.P4DeviceConfig.Extras.KvEntry", repeated=True)
_field(_config, "reassign", 1, Field.TYPE_BOOL)
_field(_config, "extras", 2, Field.TYPE_MESSAGE, ".p4.tmp.P4DeviceConfig.Extras")
_field(_config, "device_data", 3, Field.TYPE_BYTES)
_pool = descriptor_pool.Default()
_pool.AddSerializedFile(_file.SerializeToString())
_found = _pool.FindMessageTypeByName("p4.tmp.P4DeviceConfig")
# The name of the function is newer than the versions that PyPI's p4runtime works with.
_of = getattr(message_factory, "GetMessageClass", None) or message_factory.MessageFactory(_pool).GetPrototype
P4DeviceConfig = _of(_found)
