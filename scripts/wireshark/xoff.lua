-- Wireshark dissectors for formats that Wireshark lacks and xoff sends: CN-TAG and CNM
-- (IEEE 802.1Qau) and the OFC and GFC extensions of PFC frames. See README.md for how to install it.

local ETHERTYPES = { cn_tag = 0x22e9, cnm = 0x22e7, mac_control = 0x8808 }
local by_ethertype = DissectorTable.get("ethertype")

-- CN-TAG: RPID, then the EtherType of the payload.

local cn_tag = Proto("xoff_cntag", "Congestion Notification Tag (802.1Qau)")
local tag = {
    rpid = ProtoField.uint16("xoff_cntag.rpid", "Reaction point", base.DEC),
    ethertype = ProtoField.uint16("xoff_cntag.type", "Type", base.HEX),
}
cn_tag.fields = { tag.rpid, tag.ethertype }
local cn_tag_short = ProtoExpert.new(
    "xoff_cntag.truncated", "CN-TAG is cut off", expert.group.MALFORMED, expert.severity.ERROR)
cn_tag.experts = { cn_tag_short }

function cn_tag.dissector(buffer, pinfo, tree)
    local subtree = tree:add(cn_tag, buffer(0, math.min(4, buffer:len())))
    if buffer:len() < 4 then
        subtree:add_proto_expert_info(cn_tag_short)
        return buffer:len()
    end
    subtree:add(tag.rpid, buffer(0, 2))
    subtree:add(tag.ethertype, buffer(2, 2))
    subtree:append_text(", reaction point " .. buffer(0, 2):uint())
    local rest = buffer(4):tvb()
    local inner = by_ethertype:get_dissector(buffer(2, 2):uint())
    if inner then
        inner:call(rest, pinfo, tree)
    else
        Dissector.get("data"):call(rest, pinfo, tree)
    end
    return buffer:len()
end

by_ethertype:add(ETHERTYPES.cn_tag, cn_tag)

-- CNM: 24 bytes, and up to 64 bytes of the frame that caused it.

local cnm = Proto("xoff_cnm", "Congestion Notification Message (802.1Qau)")
local message = {
    version = ProtoField.uint8("xoff_cnm.version", "Version", base.DEC, nil, 0xf0),
    reserved = ProtoField.uint16("xoff_cnm.reserved", "Reserved", base.HEX, nil, 0x0fc0),
    feedback = ProtoField.uint16("xoff_cnm.feedback", "Quantized feedback", base.DEC, nil, 0x003f),
    cpid = ProtoField.bytes("xoff_cnm.cpid", "Congestion point"),
    cp_port = ProtoField.ether("xoff_cnm.cpid.port", "Port"),
    cp_class = ProtoField.uint8("xoff_cnm.cpid.class", "Class", base.DEC),
    q_offset = ProtoField.int16("xoff_cnm.qoffset", "cnmQOffset (64 bytes)", base.DEC),
    q_delta = ProtoField.int16("xoff_cnm.qdelta", "cnmQDelta (64 bytes)", base.DEC),
    priority = ProtoField.uint8("xoff_cnm.priority", "Encapsulated priority", base.DEC, nil, 0xe0),
    destination = ProtoField.ether("xoff_cnm.destination", "Encapsulated destination"),
    msdu_len = ProtoField.uint16("xoff_cnm.msdu_len", "Encapsulated MSDU length", base.DEC),
    msdu = ProtoField.bytes("xoff_cnm.msdu", "Encapsulated MSDU"),
}
local cnm_fields = {}
for _, field in pairs(message) do table.insert(cnm_fields, field) end
cnm.fields = cnm_fields
local cnm_malformed = ProtoExpert.new(
    "xoff_cnm.malformed", "CNM is malformed", expert.group.MALFORMED, expert.severity.ERROR)
cnm.experts = { cnm_malformed }

local MSDU = 24
local MSDU_MAX = 64

-- Returns the error of the PDU, or nil.
local function cnm_problem(buffer)
    if buffer:len() < MSDU then return "less than 24 bytes" end
    if buffer(0, 1):bitfield(0, 4) ~= 0 then return "a version other than 0" end
    local len = buffer(22, 2):uint()
    if len > MSDU_MAX then return "an MSDU of more than 64 bytes" end
    if MSDU + len > buffer:len() then return "ends within its MSDU" end
    return nil
end

function cnm.dissector(buffer, pinfo, tree)
    pinfo.cols.protocol = "CNM"
    local subtree = tree:add(cnm, buffer())
    local problem = cnm_problem(buffer)
    if problem then
        pinfo.cols.info = "CNM, malformed: " .. problem
        subtree:add_proto_expert_info(cnm_malformed, "CNM is malformed: " .. problem)
        return buffer:len()
    end
    subtree:add(message.version, buffer(0, 1))
    subtree:add(message.reserved, buffer(0, 2))
    subtree:add(message.feedback, buffer(0, 2))
    local cpid = subtree:add(message.cpid, buffer(2, 8))
    cpid:add(message.cp_port, buffer(2, 6))
    cpid:add(message.cp_class, buffer(8, 1))
    subtree:add(message.q_offset, buffer(10, 2))
    subtree:add(message.q_delta, buffer(12, 2))
    subtree:add(message.priority, buffer(14, 1))
    subtree:add(message.destination, buffer(16, 6))
    subtree:add(message.msdu_len, buffer(22, 2))
    local len = buffer(22, 2):uint()
    if len > 0 then subtree:add(message.msdu, buffer(MSDU, len)) end
    local feedback = buffer(0, 2):bitfield(10, 6)
    local about = string.format("CNM, feedback %d, class %d", feedback, buffer(14, 1):bitfield(0, 3))
    pinfo.cols.info = about
    return buffer:len()
end

by_ethertype:add(ETHERTYPES.cnm, cnm)

-- OFC: flows after the time vector of a PFC frame. Wireshark's dissector reads the frame up to the
-- time vector, this one the rest.

local ofc = Proto("xoff_ofc", "Flow list of a PFC frame (OFC)")
local OPERATIONS = { [1] = "pause these flows", [2] = "resume these flows" }
local list = {
    operation = ProtoField.uint8("xoff_ofc.operation", "Operation", base.DEC, OPERATIONS),
    class = ProtoField.uint8("xoff_ofc.class", "Class", base.DEC),
    count = ProtoField.uint16("xoff_ofc.count", "Flows", base.DEC),
    flow = ProtoField.bytes("xoff_ofc.flow", "Flow"),
    family = ProtoField.uint8("xoff_ofc.flow.family", "Family", base.DEC, { [0] = "MAC", [4] = "IPv4", [6] = "IPv6" }),
    protocol = ProtoField.uint8("xoff_ofc.flow.protocol", "Protocol", base.DEC),
    source_port = ProtoField.uint16("xoff_ofc.flow.srcport", "Source port", base.DEC),
    destination_port = ProtoField.uint16("xoff_ofc.flow.dstport", "Destination port", base.DEC),
    ethertype = ProtoField.uint16("xoff_ofc.flow.type", "EtherType", base.HEX),
    mac_source = ProtoField.ether("xoff_ofc.flow.eth_src", "Source"),
    mac_destination = ProtoField.ether("xoff_ofc.flow.eth_dst", "Destination"),
    ipv4_source = ProtoField.ipv4("xoff_ofc.flow.src", "Source"),
    ipv4_destination = ProtoField.ipv4("xoff_ofc.flow.dst", "Destination"),
    ipv6_source = ProtoField.ipv6("xoff_ofc.flow.src6", "Source"),
    ipv6_destination = ProtoField.ipv6("xoff_ofc.flow.dst6", "Destination"),
}
local ofc_fields = {}
for _, field in pairs(list) do table.insert(ofc_fields, field) end
ofc.fields = ofc_fields
local ofc_malformed = ProtoExpert.new(
    "xoff_ofc.malformed", "Flow list is malformed", expert.group.MALFORMED, expert.severity.ERROR)
ofc.experts = { ofc_malformed }

local ETHERTYPE_AT, PFC_OPCODE, LIST, FLOWS, FLOW_HEAD = 12, 0x0101, 34, 42, 6
-- The low byte of the class-enable vector, and the time of class 0.
local VECTOR, TIMES = 17, 18
local ADDRESS_LEN = { [0] = 6, [4] = 4, [6] = 16 }

-- Returns whether an extension with this magic number follows the time vector.
local function extends_pfc(buffer, magic)
    return buffer:len() >= LIST + 4
        and buffer(ETHERTYPE_AT, 2):uint() == ETHERTYPES.mac_control
        and buffer(ETHERTYPE_AT + 2, 2):uint() == PFC_OPCODE
        and buffer(LIST, 4):string() == magic
end

local function add_addresses(flow, family, buffer, at, len)
    local kind = ({ [0] = "mac", [4] = "ipv4", [6] = "ipv6" })[family]
    flow:add(list[kind .. "_source"], buffer(at, len))
    flow:add(list[kind .. "_destination"], buffer(at + len, len))
end

-- Adds the flow at `at`. Returns the start of the next one, or nil if the flow is cut off or unknown.
local function add_flow(subtree, buffer, at)
    if at + FLOW_HEAD > buffer:len() then return nil end
    local family = buffer(at, 1):uint()
    local len = ADDRESS_LEN[family]
    if not len or at + FLOW_HEAD + 2 * len > buffer:len() then return nil end
    local flow = subtree:add(list.flow, buffer(at, FLOW_HEAD + 2 * len))
    flow:add(list.family, buffer(at, 1))
    if family == 0 then
        flow:add(list.ethertype, buffer(at + 2, 2))
    else
        flow:add(list.protocol, buffer(at + 1, 1))
        flow:add(list.source_port, buffer(at + 2, 2))
        flow:add(list.destination_port, buffer(at + 4, 2))
    end
    add_addresses(flow, family, buffer, at + FLOW_HEAD, len)
    return at + FLOW_HEAD + 2 * len
end

-- Returns the error of the list's header, or nil.
local function list_problem(buffer)
    if buffer:len() < FLOWS then return "ends before its flows" end
    local operation, class = buffer(38, 1):uint(), buffer(39, 1):uint()
    if not OPERATIONS[operation] then return "neither pauses nor resumes" end
    if class > 7 then return "has a class above 7" end
    if buffer(40, 2):uint() == 0 then return "has no flow" end
    local enabled = buffer(VECTOR, 1):uint()
    if operation == 2 and enabled ~= 0 then return "resumes flows beside a pause" end
    if operation == 1 and enabled ~= bit.lshift(1, class) then return "pauses flows of a class that the vector does not name alone" end
    if operation == 1 and buffer(TIMES + 2 * class, 2):uint() == 0 then return "pauses flows for no time" end
    return nil
end

function ofc.dissector(buffer, pinfo, tree)
    if not extends_pfc(buffer, "OFC1") then return end
    local subtree = tree:add(ofc, buffer(LIST))
    local problem = list_problem(buffer)
    if buffer:len() >= FLOWS then
        subtree:add(list.operation, buffer(38, 1))
        subtree:add(list.class, buffer(39, 1))
        subtree:add(list.count, buffer(40, 2))
        local at = FLOWS
        for _ = 1, buffer(40, 2):uint() do
            at = at and add_flow(subtree, buffer, at)
        end
        if not at then problem = problem or "has a flow that is cut off or of no known family" end
    end
    if problem then
        pinfo.cols.info:append(", OFC, malformed: the list " .. problem)
        subtree:add_proto_expert_info(ofc_malformed, "Flow list is malformed: it " .. problem)
        return
    end
    local count = buffer(40, 2):uint()
    local text = buffer(38, 1):uint() == 1 and "pause" or "resume"
    local flows = count == 1 and "flow" or "flows"
    pinfo.cols.info:append(string.format(", OFC: %s %d %s of class %d", text, count, flows, buffer(39, 1):uint()))
end

register_postdissector(ofc)

-- GFC: rates of classes, in the padding of a PFC frame that pauses no class.

local gfc = Proto("xoff_gfc", "Rates of a PFC frame (GFC)")
local rate = {
    classes = ProtoField.uint8("xoff_gfc.classes", "Classes", base.HEX),
    class = ProtoField.uint8("xoff_gfc.class", "Class", base.DEC),
    step = ProtoField.uint8("xoff_gfc.step", "Step", base.DEC),
    time = ProtoField.uint16("xoff_gfc.time", "Time (quanta)", base.DEC),
}
local gfc_fields = {}
for _, field in pairs(rate) do table.insert(gfc_fields, field) end
gfc.fields = gfc_fields
local gfc_malformed = ProtoExpert.new(
    "xoff_gfc.malformed", "Rates are malformed", expert.group.MALFORMED, expert.severity.ERROR)
gfc.experts = { gfc_malformed }

local RATE_CLASSES, STEPS, RATE_TIME, RATES_END, STEP_MAX = 38, 40, 48, 50, 16

-- Returns the error of the rates, or nil.
local function rates_problem(buffer)
    if buffer:len() < RATES_END then return "end before their time" end
    if buffer(VECTOR, 1):uint() ~= 0 then return "stand beside a pause" end
    for class = 0, 7 do
        local named = bit.band(bit.rshift(buffer(RATE_CLASSES, 1):uint(), class), 1) == 1
        if named and buffer(STEPS + class, 1):uint() > STEP_MAX then return "have a step above 16" end
    end
    return nil
end

function gfc.dissector(buffer, pinfo, tree)
    if not extends_pfc(buffer, "GFC1") then return end
    local subtree = tree:add(gfc, buffer(LIST))
    local problem = rates_problem(buffer)
    if problem then
        pinfo.cols.info:append(", GFC, malformed: the rates " .. problem)
        subtree:add_proto_expert_info(gfc_malformed, "Rates are malformed: they " .. problem)
        return
    end
    local classes, time = buffer(RATE_CLASSES, 1):uint(), buffer(RATE_TIME, 2):uint()
    subtree:add(rate.classes, buffer(RATE_CLASSES, 1))
    local told = {}
    for class = 0, 7 do
        if bit.band(bit.rshift(classes, class), 1) == 1 then
            local step = buffer(STEPS + class, 1):uint()
            local ends = step == 0 or time == 0
            local text = ends and "no limit" or string.format("1/%d of the line", bit.lshift(1, step))
            local of_class = subtree:add(rate.step, buffer(STEPS + class, 1))
            of_class:prepend_text(string.format("Class %d: %s, ", class, text))
            of_class:add(rate.class, buffer(RATE_CLASSES, 1), class)
            table.insert(told, string.format("class %d %s", class, text))
        end
    end
    subtree:add(rate.time, buffer(RATE_TIME, 2))
    pinfo.cols.info:append(", GFC: " .. table.concat(told, ", "))
end

register_postdissector(gfc)
